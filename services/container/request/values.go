package request

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// checkValues checks enumerated values and strings with a format
// (gateway/contract/container-service.md#values).
func checkValues(r *containerv1.ContainerRequest) ([]ocispec.Platform, error) {
	for _, s := range closedSets(r) {
		if err := oneOf(s.field, s.value, s.allowed); err != nil {
			return nil, err
		}
	}
	if err := checkLater(r); err != nil {
		return nil, err
	}
	if err := checkScanLevels(r); err != nil {
		return nil, err
	}
	if err := checkTimestamp(r.GetTimestamp()); err != nil {
		return nil, err
	}
	if err := checkCompression(r.GetCompression()); err != nil {
		return nil, err
	}
	if err := checkSoci(r); err != nil {
		return nil, err
	}
	if err := checkPrefetch(r); err != nil {
		return nil, err
	}
	if r.GetContainerFile() != "" {
		if err := checkLayersOnly(r, "containerFile"); err != nil {
			return nil, err
		}
	}
	if err := checkRecipe(r); err != nil {
		return nil, err
	}
	if err := checkConfig(r); err != nil {
		return nil, err
	}
	return checkPlatforms(r)
}

// A closedSet is a string with its allowed values.
type closedSet struct {
	field, value string
	allowed      []string
}

func closedSets(r *containerv1.ContainerRequest) []closedSet {
	return []closedSet{
		{"format", r.GetFormat(), []string{"docker", "oci", FormatSif, FormatEnvironment}},
		{"nameStrategy", r.GetNameStrategy(), []string{conda.NameNone, conda.NameTagPrefix, conda.NameImageSuffix}},
		{"buildTemplate", r.GetBuildTemplate(), buildTemplates()},
		{"packages.cranFallback", r.GetPackages().GetCranFallback(), []string{conda.FallbackSource}},
		{"keepScope", r.GetKeepScope(), []string{KeepPublic, KeepOrganization}},
		{"scanMode", r.GetScanMode(), []string{"none", scanAsync, ScanRequired}},
		{"buildCompression.mode", r.GetCompression().GetMode(), []string{modeGzip, modeZstd, modeEstargz, modeChunked, modeErofs, modeErofsZstd}},
	}
}

// templatesInSteps returns the templates of clients for Conda packages that install in
// steps with a Dockerfile. Images of other templates are assembled from layers.
func templatesInSteps() []string { return []string{"conda/micromamba:v1", "conda/micromamba:v2"} }

func buildTemplates() []string {
	return append(templatesInSteps(), "conda/micromamba:v2-fast", "conda/pixi:v1", "conda/pixi:v1-fast", templateR)
}

// templateR is the template of clients for R packages, which are Conda packages here.
const templateR = "cran/installr:v1"

// isInSteps reports whether a build template installs packages in steps.
func isInSteps(template string) bool { return slices.Contains(templatesInSteps(), template) }

// WithoutEffect returns a note about requested options that the service ignores, because the
// image works without them; "" for none.
func WithoutEffect(r *containerv1.ContainerRequest) string {
	switch {
	case !r.GetSoci():
	case r.GetFormat() == FormatSif:
		return "soci: a Singularity image has no SOCI index"
	case r.GetMirror():
		return "soci: a mirrored image is a copy of its source, and has a SOCI index only if that has one"
	case !IsRecipe(r) && !r.GetFreeze():
		return "soci: the image is served from its own registry and gets no SOCI index; it is pulled as a whole. Set freeze to copy it with a SOCI index"
	}
	return ""
}

func oneOf(field, value string, allowed []string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return fault.Invalid.Newf("%s must be one of %s, not %q", field, strings.Join(allowed, ", "), fault.Quote(value))
}

// checkLater rejects requests for unsupported capabilities.
func checkLater(r *containerv1.ContainerRequest) error {
	for _, f := range []struct {
		name  string
		asked bool
	}{
		{"scanMode of a Singularity image", IsScanned(r) && r.GetFormat() == FormatSif},
		{"scanMode of an environment without an image", IsScanned(r) && r.GetFormat() == FormatEnvironment},
		{"scanLevels without scanMode", len(r.GetScanLevels()) > 0 && !IsScanned(r)},
	} {
		if f.asked {
			return fault.Invalid.Newf("%s is not supported; leave it out", f.name)
		}
	}
	return nil
}

// checkTimestamp checks that a string is ISO 8601: a date (of a month, a year or a week) or
// a date and time, in the extended or the basic format.
func checkTimestamp(s string) error {
	if s == "" {
		return nil
	}
	s = calendarDate(s)
	for _, date := range []string{"2006-01-02", "20060102", "2006-002", "2006002"} {
		for _, clock := range []string{"", "T15:04:05", "T15:04", "T150405", "T1504", "T15"} {
			for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
				if _, err := time.Parse(date+clock+zone, s); err == nil && (clock != "" || zone == "") {
					return nil
				}
			}
		}
	}
	return fault.Invalid.Newf("timestamp must be ISO 8601, e.g. 2026-01-31T12:00:00Z, not %q", fault.Quote(s))
}

var weekDate = regexp.MustCompile(`^(\d{4})(-?)W(0[1-9]|[1-4]\d|5[0-3])(-?)([1-7])`)

// calendarDate converts the week date of a timestamp, e.g. 2026-W05-6, to a calendar date.
// It returns any other string unchanged.
func calendarDate(s string) string {
	m := weekDate.FindStringSubmatch(s)
	if m == nil || m[2] != m[4] {
		return s
	}
	year, _ := strconv.Atoi(m[1])
	week, _ := strconv.Atoi(m[3])
	day, _ := strconv.Atoi(m[5])
	first := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC) // 4 January is always in week 1
	monday := first.AddDate(0, 0, -(int(first.Weekday())+6)%7)
	date := monday.AddDate(0, 0, 7*(week-1)+day-1)
	if y, w := date.ISOWeek(); y != year || w != week { // the year has no week 53
		return s
	}
	return date.Format("2006"+m[2]+"01"+m[2]+"02") + s[len(m[0]):]
}

// checkConfig validates variables and layers.
func checkConfig(r *containerv1.ContainerRequest) error {
	for i, kv := range r.GetContainerConfig().GetEnv() {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.ContainsRune(kv, 0) {
			return fault.Invalid.Newf("containerConfig.env[%d] must be NAME=value", i)
		}
	}
	layers := r.GetContainerConfig().GetLayers()
	if len(layers) > limits.Layers {
		return fault.Invalid.Newf("containerConfig.layers has %d layers; the maximum is %d", len(layers), limits.Layers)
	}
	for i, l := range layers {
		if err := checkLayer(fmt.Sprintf("containerConfig.layers[%d]", i), l); err != nil {
			return err
		}
	}
	if l := r.GetBuildContext(); l.GetLocation() != "" || l.GetGzipDigest() != "" || l.GetTarDigest() != "" {
		return checkLayer("buildContext", l)
	}
	return nil
}

func checkLayer(field string, l *containerv1.Layer) error {
	for _, d := range []struct{ name, value string }{{"gzipDigest", l.GetGzipDigest()}, {"tarDigest", l.GetTarDigest()}} {
		if p, err := digest.Parse(d.value); err != nil || p.Algorithm() != digest.SHA256 {
			return fault.Invalid.Newf("%s.%s must be sha256:<64 hex digits>, not %q", field, d.name, fault.Quote(d.value))
		}
	}
	if l.GzipSize == nil || l.GetGzipSize() < 1 {
		return fault.Invalid.Newf("%s.gzipSize must be the length in bytes, 1 or more", field)
	}
	if IsData(l.GetLocation()) {
		_, err := DataOf(l.GetLocation())
		return fault.In(field+".location", err)
	}
	u, err := url.Parse(l.GetLocation())
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return fault.Invalid.Newf("%s.location must be http(s)://… without a login, or data: and base64", field)
	}
	return nil
}

// DataPrefix marks a layer whose content is in the request: base64, or a data URL (RFC
// 2397) with a media type.
const DataPrefix = "data:"

// IsData reports whether a location contains the content itself. Schemes are
// case-insensitive.
func IsData(location string) bool {
	return len(location) >= len(DataPrefix) && strings.EqualFold(location[:len(DataPrefix)], DataPrefix)
}

// DataOf returns the base64 in the location of a layer whose content is in the request. The
// media type of a data URL is ignored, because the layer has its own. It returns
// fault.Invalid for a data URL whose content is not base64.
func DataOf(location string) (string, error) {
	head, data, found := strings.Cut(location[len(DataPrefix):], ",")
	if !found {
		return head, nil
	}
	head = strings.TrimSpace(head)
	if i := strings.LastIndexByte(head, ';'); i < 0 || !strings.EqualFold(strings.TrimSpace(head[i+1:]), "base64") {
		return "", fault.Invalid.Newf("a data URL must be base64, data:<media type>;base64,…, not %q", fault.Quote(DataPrefix+head))
	}
	return data, nil
}

// checkPlatforms parses the platform; two, separated by a comma, are allowed for builds.
func checkPlatforms(r *containerv1.ContainerRequest) ([]ocispec.Platform, error) {
	first, second, two := strings.Cut(r.GetContainerPlatform(), ",")
	p, err := servedPlatform(first)
	if err != nil || !two {
		return []ocispec.Platform{p}, err
	}
	q, err := servedPlatform(second)
	if err != nil {
		return nil, err
	}
	if platforms.NewMatcher(p).Match(q) {
		return nil, fault.Invalid.Newf("containerPlatform names %s twice", platforms.Format(p))
	}
	if !IsRecipe(r) {
		return nil, fault.Invalid.Newf("containerPlatform must be one platform for an existing image")
	}
	return []ocispec.Platform{p, q}, nil
}

// servedPlatform parses a platform that requests may use, in any of its spellings.
func servedPlatform(s string) (ocispec.Platform, error) {
	p, err := oci.ParsePlatform(strings.TrimSpace(s))
	if err == nil && p.Variant == "" && (p.Architecture == "amd64" || p.Architecture == "arm64") {
		return p, nil
	}
	return p, fault.Invalid.New(fmt.Sprintf("containerPlatform must be linux/amd64, linux/arm64 or both, separated by a comma, not %q", fault.Quote(s)), err)
}

const (
	// FormatSif requests a Singularity image.
	FormatSif = "sif"
	// FormatEnvironment requests an environment of Conda packages that is mounted, without an image.
	FormatEnvironment = "environment"
)

// FormatOf returns the format of the plan of a result with the format of a recipe: "" for an OCI image.
func FormatOf(recipe string) string {
	if recipe == FormatSif || recipe == FormatEnvironment {
		return recipe
	}
	return ""
}

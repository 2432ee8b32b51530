package request

import (
	"fmt"
	"net/url"
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

// checkValues checks values of closed sets, and texts with a form
// (gateway/contract/container-service.md#values).
func checkValues(r *containerv1.ContainerRequest) ([]ocispec.Platform, error) {
	for _, s := range []struct {
		field, value string
		allowed      []string
	}{
		{"format", r.GetFormat(), []string{"docker", "oci", "sif"}},
		{"nameStrategy", r.GetNameStrategy(), []string{conda.NameNone, conda.NameTagPrefix, conda.NameImageSuffix}},
		{"buildTemplate", r.GetBuildTemplate(), []string{"conda/micromamba:v1", "conda/micromamba:v2"}},
	} {
		if err := oneOf(s.field, s.value, s.allowed); err != nil {
			return nil, err
		}
	}
	if err := checkLater(r); err != nil {
		return nil, err
	}
	if err := checkTimestamp(r.GetTimestamp()); err != nil {
		return nil, err
	}
	if err := checkCompression(r.GetCompression()); err != nil {
		return nil, err
	}
	if err := checkRecipe(r); err != nil {
		return nil, err
	}
	if err := checkConfig(r); err != nil {
		return nil, err
	}
	return checkPlatforms(r)
}

func oneOf(field, value string, allowed []string) error {
	if value == "" {
		return nil
	}
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fault.Invalid.Newf("%s must be one of %s, not %q", field, strings.Join(allowed, ", "), fault.Quote(value))
}

// checkLater refuses what asks for a capability that does not exist.
func checkLater(r *containerv1.ContainerRequest) error {
	for _, f := range []struct {
		name  string
		asked bool
	}{
		{"mirror", r.GetMirror()},
		{"scanMode", r.GetScanMode() != "" && r.GetScanMode() != "none"},
		{"scanLevels", len(r.GetScanLevels()) > 0},
	} {
		if f.asked {
			return fault.Invalid.Newf("%s is not supported; leave it out", f.name)
		}
	}
	return nil
}

// checkTimestamp wants ISO 8601: a date or a moment, in the extended or the basic form.
func checkTimestamp(s string) error {
	if s == "" {
		return nil
	}
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

// checkConfig looks at variables and layers.
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
	if strings.HasPrefix(l.GetLocation(), DataPrefix) {
		return nil
	}
	u, err := url.Parse(l.GetLocation())
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return fault.Invalid.Newf("%s.location must be http(s)://… without a login, or data: and base64", field)
	}
	return nil
}

// DataPrefix marks a layer whose content is in the request.
const DataPrefix = "data:"

// checkPlatforms reads the platform; two with a comma are for builds.
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

// servedPlatform reads one of the platforms that requests may ask for, in any of its
// spellings.
func servedPlatform(s string) (ocispec.Platform, error) {
	p, err := oci.ParsePlatform(strings.TrimSpace(s))
	if err == nil && p.Variant == "" && (p.Architecture == "amd64" || p.Architecture == "arm64") {
		return p, nil
	}
	return p, fault.Invalid.New(fmt.Sprintf("containerPlatform must be linux/amd64, linux/arm64 or both, separated by a comma, not %q", fault.Quote(s)), err)
}

// FormatSif asks for a Singularity image.
const FormatSif = "sif"

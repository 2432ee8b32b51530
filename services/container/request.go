package container

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Limits of contract/container-service.md §2, in characters as sent.
const (
	maxContainerFile = 10_000
	maxEnvironment   = 50_000
	maxLocation      = 14_000_000
	maxLayers        = 100
)

// checked is a request that keeps every rule which needs nobody else to answer.
type checked struct {
	raw      *containerv1.ContainerRequest
	image    oci.Reference // zero for a recipe
	recipe   *recipe       // nil for an image
	platform oci.Platform
	// parts are one request for each of two platforms; nil for one platform.
	parts []checked
	claim caller.Claim
}

// isRecipe says whether something has to be built.
func isRecipe(r *containerv1.ContainerRequest) bool {
	return r.GetContainerFile() != "" || r.GetCondaFile() != "" || !isEmptyPackages(r.GetPackages())
}

func isEmptyPackages(p *containerv1.Packages) bool {
	return p.GetType() == "" && p.GetEnvironment() == "" && len(p.GetEntries()) == 0
}

// rules is what the rules need beside the request.
type rules struct {
	// deprecated says that the request came by the deprecated path.
	deprecated bool
	// identify lets the caller in.
	identify func(caller.Claim) error
	// owns knows the service's own repositories.
	owns func(registry, repository string) bool
}

// check applies the rules in the order of the contract; the first that fails is
// the answer.
func (rs rules) check(r *containerv1.ContainerRequest) (checked, error) {
	c := checked{raw: r}
	var err error
	if c.claim, err = caller.ReadClaim(r); err != nil {
		return c, err
	}
	if c.platform, err = checkValues(r); err != nil {
		return c, err
	}
	if err := checkSizes(r); err != nil {
		return c, err
	}
	if c.image, err = rs.checkNames(r); err != nil {
		return c, err
	}
	if err := rs.identify(c.claim); err != nil {
		return c, err
	}
	if err := checkContent(r); err != nil {
		return c, err
	}
	if rs.deprecated {
		if err := checkDeprecated(r); err != nil {
			return c, err
		}
	}
	if err := checkFreeze(r); err != nil {
		return c, err
	}
	if c.recipe, err = readRecipe(r, c.platform); err != nil {
		return c, err
	}
	return c, c.divide()
}

// divide makes two of a request for two platforms.
func (c *checked) divide() error {
	all, err := oci.ParsePlatforms(c.raw.GetContainerPlatform())
	if err != nil || len(all) < 2 {
		return err
	}
	for _, p := range all {
		part := *c
		part.platform = p
		if part.recipe, err = readRecipe(c.raw, p); err != nil {
			return err
		}
		c.parts = append(c.parts, part)
	}
	return nil
}

// checkValues is rule 1: values of closed sets, and texts with a form.
func checkValues(r *containerv1.ContainerRequest) (oci.Platform, error) {
	for _, s := range []struct {
		field, value string
		allowed      []string
	}{
		{"format", r.GetFormat(), []string{"docker", "oci", "sif"}},
		{"nameStrategy", r.GetNameStrategy(), []string{"none", "tagPrefix", "imageSuffix"}},
		{"buildTemplate", r.GetBuildTemplate(), []string{"conda/micromamba:v1", "conda/micromamba:v2"}},
	} {
		if err := oneOf(s.field, s.value, s.allowed); err != nil {
			return oci.Platform{}, err
		}
	}
	if err := checkLater(r); err != nil {
		return oci.Platform{}, err
	}
	if err := checkTimestamp(r.GetTimestamp()); err != nil {
		return oci.Platform{}, err
	}
	if err := checkRecipe(r); err != nil {
		return oci.Platform{}, err
	}
	if err := checkConfig(r); err != nil {
		return oci.Platform{}, err
	}
	return checkPlatform(r)
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
	return fault.Invalid.Newf("%s must be one of %s, not %q", field, strings.Join(allowed, ", "), clip(value))
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
		{"buildCompression", len(r.GetBuildCompression().GetFields()) > 0},
		{"containerIncludes", len(r.GetContainerIncludes()) > 0},
	} {
		if f.asked {
			return fault.Invalid.Newf("%s is not supported; leave it out", f.name)
		}
	}
	return nil
}

// checkTimestamp wants ISO-8601 with an offset; seconds may be missing.
func checkTimestamp(s string) error {
	if s == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if _, err := time.Parse(layout, s); err == nil {
			return nil
		}
	}
	return fault.Invalid.Newf("timestamp must be ISO-8601 with an offset, e.g. 2026-01-31T12:00:00Z, not %q", clip(s))
}

// checkConfig looks at variables and layers.
func checkConfig(r *containerv1.ContainerRequest) error {
	for i, kv := range r.GetContainerConfig().GetEnv() {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.ContainsRune(kv, 0) {
			return fault.Invalid.Newf("containerConfig.env[%d] must be NAME=value", i)
		}
	}
	layers := r.GetContainerConfig().GetLayers()
	if len(layers) > maxLayers {
		return fault.Invalid.Newf("containerConfig.layers has %d layers; %d is the most", len(layers), maxLayers)
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
			return fault.Invalid.Newf("%s.%s must be sha256:<64 hex digits>, not %q", field, d.name, clip(d.value))
		}
	}
	if l.GzipSize == nil || l.GetGzipSize() < 1 {
		return fault.Invalid.Newf("%s.gzipSize must be the length in bytes, 1 or more", field)
	}
	if strings.HasPrefix(l.GetLocation(), dataPrefix) {
		return nil
	}
	u, err := url.Parse(l.GetLocation())
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return fault.Invalid.Newf("%s.location must be http(s)://… without a login, or data: and base64", field)
	}
	return nil
}

// dataPrefix marks a layer whose content is in the request.
const dataPrefix = "data:"

// checkPlatform reads the platform; two with a comma are for builds.
func checkPlatform(r *containerv1.ContainerRequest) (oci.Platform, error) {
	first, second, two := strings.Cut(r.GetContainerPlatform(), ",")
	p, err := platform(first)
	if !two || err != nil {
		return p, err
	}
	if q, err := platform(second); err != nil || q.String() == p.String() {
		return p, fault.Invalid.New("containerPlatform may hold two different platforms, e.g. linux/amd64,linux/arm64", err)
	}
	if !isRecipe(r) {
		return p, fault.Invalid.Newf("containerPlatform must be one platform for an existing image")
	}
	return p, nil
}

func platform(s string) (oci.Platform, error) {
	p, err := oci.ParsePlatform(strings.TrimSpace(s))
	if err != nil {
		return p, named("containerPlatform", err)
	}
	return p, nil
}

// checkSizes is rule 2.
func checkSizes(r *containerv1.ContainerRequest) error {
	type sized struct {
		field, value string
		most         int
	}
	texts := []sized{
		{"containerFile", r.GetContainerFile(), maxContainerFile},
		{"condaFile", r.GetCondaFile(), maxEnvironment},
		{"packages.environment", r.GetPackages().GetEnvironment(), maxEnvironment},
		{"buildContext.location", r.GetBuildContext().GetLocation(), maxLocation},
	}
	for i, l := range r.GetContainerConfig().GetLayers() {
		texts = append(texts, sized{fmt.Sprintf("containerConfig.layers[%d].location", i), l.GetLocation(), maxLocation})
	}
	for _, l := range []struct {
		field string
		list  []string
		most  int
	}{
		{"packages.entries", r.GetPackages().GetEntries(), maxEnvironment},
		{"packages.channels", r.GetPackages().GetChannels(), maxContainerFile},
		{"packages.condaOpts.commands", r.GetPackages().GetCondaOpts().GetCommands(), maxContainerFile},
		{"packages.condaOpts.basePackages", []string{r.GetPackages().GetCondaOpts().GetBasePackages()}, maxContainerFile},
	} {
		texts = append(texts, sized{l.field, strings.Join(l.list, "\n"), l.most})
	}
	for _, t := range texts {
		if len(t.value) > t.most {
			return fault.Invalid.Newf("%s is %d characters long; %d is the most", t.field, len(t.value), t.most)
		}
	}
	return nil
}

// checkNames is rule 3.
func (rs rules) checkNames(r *containerv1.ContainerRequest) (oci.Reference, error) {
	for _, f := range []struct{ name, value string }{
		{"buildRepository", r.GetBuildRepository()}, {"cacheRepository", r.GetCacheRepository()},
	} {
		if f.value == "" {
			continue
		}
		registry, repository, err := oci.ParseRepository(f.value)
		if err != nil {
			return oci.Reference{}, named(f.name, err)
		}
		if rs.owns(registry, repository) {
			return oci.Reference{}, fault.Invalid.Newf("%s: %s belongs to this service; name a repository of your own", f.name, clip(f.value))
		}
	}
	if r.GetContainerImage() == "" {
		return oci.Reference{}, nil
	}
	ref, err := oci.ParseReference(r.GetContainerImage())
	if err != nil {
		return ref, named("containerImage", err)
	}
	return ref, nil
}

// named puts the field in front of a message about its value.
func named(field string, err error) error {
	if e, ok := fault.As(err); ok {
		return e.Kind.New(field+": "+e.Public, e.Cause)
	}
	return err
}

// checkContent is rule 5.
func checkContent(r *containerv1.ContainerRequest) error {
	image, file, packages := r.GetContainerImage() != "", r.GetContainerFile() != "", !isEmptyPackages(r.GetPackages())
	switch {
	case !image && !isRecipe(r):
		return fault.Invalid.Newf("containerImage is missing; give it, or containerFile, packages or condaFile")
	case image && file:
		return fault.Invalid.Newf("containerImage and containerFile exclude each other")
	case image && packages:
		return fault.Invalid.Newf("containerImage and packages exclude each other")
	case image && r.GetCondaFile() != "":
		return fault.Invalid.Newf("containerImage and condaFile exclude each other")
	case file && packages:
		return fault.Invalid.Newf("containerFile and packages exclude each other")
	case packages && r.GetCondaFile() != "":
		return fault.Invalid.Newf("packages and condaFile exclude each other")
	}
	return nil
}

// checkDeprecated is rule 6.
func checkDeprecated(r *containerv1.ContainerRequest) error {
	if !isEmptyPackages(r.GetPackages()) {
		return fault.Invalid.Newf("packages needs the path /v1alpha2/container")
	}
	if r.GetNameStrategy() != "" {
		return fault.Invalid.Newf("nameStrategy needs the path /v1alpha2/container")
	}
	return nil
}

// checkFreeze is rules 7 and 8.
func checkFreeze(r *containerv1.ContainerRequest) error {
	switch {
	case r.GetFreeze() && r.GetBuildRepository() == "":
		return fault.Invalid.Newf("freeze needs buildRepository: the repository that the image is pushed to")
	case r.GetFormat() == formatSif && !r.GetFreeze():
		return fault.Invalid.Newf("format sif needs freeze and buildRepository: a Singularity image is pushed to your own repository")
	case r.GetFormat() == formatSif && strings.Contains(r.GetContainerPlatform(), ","):
		return fault.Invalid.Newf("containerPlatform must be one platform for a Singularity image")
	}
	return nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

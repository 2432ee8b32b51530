package container

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// checkValues checks values of closed sets, and texts with a form
// (gateway/contract/container-service.md#values).
func checkValues(r *containerv1.ContainerRequest) ([]oci.Platform, error) {
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

// checkPlatforms reads the platform; two with a comma are for builds.
func checkPlatforms(r *containerv1.ContainerRequest) ([]oci.Platform, error) {
	first, second, two := strings.Cut(r.GetContainerPlatform(), ",")
	p, err := oci.ParsePlatform(strings.TrimSpace(first))
	if err != nil {
		return nil, fault.In("containerPlatform", err)
	}
	if !two {
		return []oci.Platform{p}, nil
	}
	q, err := oci.ParsePlatform(strings.TrimSpace(second))
	if err != nil || q.String() == p.String() {
		return nil, fault.Invalid.New("containerPlatform may hold two different platforms, e.g. linux/amd64,linux/arm64", err)
	}
	if !isRecipe(r) {
		return nil, fault.Invalid.Newf("containerPlatform must be one platform for an existing image")
	}
	return []oci.Platform{p, q}, nil
}

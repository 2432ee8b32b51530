package oci

import (
	"strings"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
)

// DefaultPlatform is the platform of requests that name none.
var DefaultPlatform = ocispec.Platform{OS: "linux", Architecture: "amd64"}

// aliases are other names of architectures, e.g. as printed by uname.
var aliases = map[string]string{"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "i386": "386", "armhf": "arm"}

var architectures = map[string]bool{
	"amd64": true, "arm64": true, "arm": true, "386": true, "ppc64le": true, "s390x": true, "riscv64": true,
	"mips64le": true, "loong64": true,
}

// ParsePlatform parses `[linux/]ARCH[/VARIANT]`. "" is DefaultPlatform. It returns
// fault.Invalid for other input.
func ParsePlatform(s string) (ocispec.Platform, error) {
	if s == "" {
		return DefaultPlatform, nil
	}
	parts := strings.Split(strings.ToLower(s), "/")
	if len(parts) > 1 && parts[0] == "linux" {
		parts = parts[1:]
	}
	p := ocispec.Platform{OS: "linux", Architecture: parts[0]}
	if a, ok := aliases[p.Architecture]; ok {
		p.Architecture = a
	}
	if len(parts) == 2 {
		p.Variant = parts[1]
	}
	if !architectures[p.Architecture] || len(parts) > 2 || (len(parts) == 2 && !isVariant(p.Variant)) {
		return ocispec.Platform{}, fault.Invalid.Newf("%q is not a known platform; use linux/amd64, linux/arm64 or another linux/ARCH", fault.Quote(s))
	}
	p.Variant = plainVariant(p.Architecture, p.Variant)
	return p, nil
}

// ParsePlatforms parses a comma-separated list of platforms.
func ParsePlatforms(s string) ([]ocispec.Platform, error) {
	var out []ocispec.Platform
	for one := range strings.SplitSeq(s, ",") {
		p, err := ParsePlatform(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Platforms formats a list for ParsePlatforms.
func Platforms(list []ocispec.Platform) string {
	var names []string
	for _, p := range list {
		names = append(names, platforms.Format(p))
	}
	return strings.Join(names, ",")
}

func isVariant(s string) bool {
	return len(s) == 2 && s[0] == 'v' && s[1] >= '1' && s[1] <= '9'
}

// plainVariant returns "" for the default variant of an architecture.
func plainVariant(architecture, variant string) string {
	switch architecture + "/" + variant {
	case "arm64/v8", "amd64/v1", "arm/v7":
		return ""
	}
	return variant
}

// Matching returns the positions of an index's image manifests for one of the wanted
// platforms, with any features. Artifacts that belong to an image for the platform, for example SOCI
// indexes, do not match.
func Matching(x ocispec.Index, wanted ...ocispec.Platform) []int {
	var out []int
	of := platforms.Any(wanted...)
	for i, m := range x.Manifests {
		if m.Platform == nil || IsIndex(m.MediaType) || IsArtifact(m) {
			continue
		}
		p := *m.Platform
		if p.OSFeatures = nil; of.Match(p) {
			out = append(out, i)
		}
	}
	return out
}

// IsArtifact reports whether an entry of an index states that it is not a container image.
func IsArtifact(m ocispec.Descriptor) bool { return m.ArtifactType != "" && !IsConfig(m.ArtifactType) }

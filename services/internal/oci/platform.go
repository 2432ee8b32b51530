package oci

import (
	"strings"

	"slipway.dev/services/internal/fault"
)

// Platform is an operating system and a CPU architecture, in the names that Go
// uses.
type Platform struct {
	OS           string   `json:"os"`
	Architecture string   `json:"architecture"`
	Variant      string   `json:"variant,omitempty"`
	OSVersion    string   `json:"os.version,omitempty"`
	OSFeatures   []string `json:"os.features,omitempty"`
}

// DefaultPlatform is served where a request names none.
var DefaultPlatform = Platform{OS: "linux", Architecture: "amd64"}

// aliases are other names for architectures, as uname prints them.
var aliases = map[string]string{"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "i386": "386", "armhf": "arm"}

var architectures = map[string]bool{
	"amd64": true, "arm64": true, "arm": true, "386": true, "ppc64le": true, "s390x": true, "riscv64": true,
	"mips64le": true, "loong64": true,
}

// ParsePlatform reads `[linux/]ARCH[/VARIANT]`; "" is the default. Fault.Invalid
// for anything else.
func ParsePlatform(s string) (Platform, error) {
	if s == "" {
		return DefaultPlatform, nil
	}
	parts := strings.Split(strings.ToLower(s), "/")
	if len(parts) > 1 && parts[0] == "linux" {
		parts = parts[1:]
	}
	p := Platform{OS: "linux", Architecture: parts[0]}
	if a, ok := aliases[p.Architecture]; ok {
		p.Architecture = a
	}
	if len(parts) == 2 {
		p.Variant = parts[1]
	}
	if !architectures[p.Architecture] || len(parts) > 2 || (len(parts) == 2 && !isVariant(p.Variant)) {
		return Platform{}, fault.Invalid.Newf("%q is not a known platform; use linux/amd64, linux/arm64 or another linux/ARCH", fault.Quote(s))
	}
	p.Variant = p.variant()
	return p, nil
}

// ParsePlatforms reads one platform, or several with commas.
func ParsePlatforms(s string) ([]Platform, error) {
	var out []Platform
	for one := range strings.SplitSeq(s, ",") {
		p, err := ParsePlatform(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Platforms writes what ParsePlatforms reads.
func Platforms(list []Platform) string {
	var names []string
	for _, p := range list {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}

func isVariant(s string) bool {
	return len(s) == 2 && s[0] == 'v' && s[1] >= '1' && s[1] <= '9'
}

// variant leaves out the variant that an architecture has anyway.
func (p Platform) variant() string {
	switch {
	case p.Architecture == "arm64" && p.Variant == "v8", p.Architecture == "amd64" && p.Variant == "v1",
		p.Architecture == "arm" && p.Variant == "v7":
		return ""
	}
	return p.Variant
}

// Matches says whether an image for q runs on p.
func (p Platform) Matches(q Platform) bool {
	return p.OS == q.OS && p.Architecture == q.Architecture && p.variant() == q.variant()
}

// String is e.g. "linux/arm64" or "linux/arm/v6".
func (p Platform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

package spec

import (
	"strings"

	"slipway.dev/services/internal/fault"
)

// A VirtualPackage is a property of the machine that packages may depend on (CEP 30), e.g.
// __glibc 2.39 or __archspec 1=x86_64_v3.
type VirtualPackage struct {
	// Name begins with two underscores.
	Name string `json:"name"`
	// Version is never empty. Build is "0" if it has no meaning.
	Version string `json:"version"`
	Build   string `json:"build"`
}

// ParseVirtualPackage parses a value of a request: `version` or `version=build`. It returns
// fault.Invalid for malformed values.
func ParseVirtualPackage(name, value string) (VirtualPackage, error) {
	p := VirtualPackage{Name: name, Build: "0"}
	if !strings.HasPrefix(name, "__") || leading(name, isNameLetter) != len(name) || strings.ToLower(name) != name || len(name) > 64 {
		return VirtualPackage{}, fault.Invalid.Newf("%s is not the name of a virtual package: those begin with __, as __glibc does", fault.Quoted(name))
	}
	version, build, hasBuild := strings.Cut(value, "=")
	if _, err := ParseVersion(version); err != nil {
		return VirtualPackage{}, fault.In(name, err)
	}
	p.Version = version
	if hasBuild {
		if build == "" || len(build) > 64 || leading(build, isNameLetter) != len(build) {
			return VirtualPackage{}, fault.Invalid.Newf("%s: the build %s cannot be read", name, fault.Quoted(build))
		}
		p.Build = build
	}
	return p, nil
}

// String returns the name and the value as a request writes it.
func (p VirtualPackage) String() string {
	if p.Build == "" || p.Build == "0" {
		return p.Name + "=" + p.Version
	}
	return p.Name + "=" + p.Version + "=" + p.Build
}

// Record returns the package as a record for the solver, without a channel and an artifact.
func (p VirtualPackage) Record() Record {
	return Record{Name: p.Name, Version: p.Version, Build: p.Build}
}

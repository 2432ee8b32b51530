package spec

import (
	"bytes"
	"encoding/json"
)

// A Record is one artifact as a channel's repodata lists it (CEP 36). Its JSON is that of a
// repodata record with four additional fields that depend on the location of the file:
// channel, fn, url and subdir.
type Record struct {
	// Name is lower case.
	Name string `json:"name"`
	// Version is the version as the channel writes it; see ParseVersion.
	Version string `json:"version"`
	// Build is the build string, e.g. "h50ea8bc_0".
	Build string `json:"build"`
	// BuildNumber orders builds of one version.
	BuildNumber uint64 `json:"build_number"`
	// Depends and Constrains are match specifications, as written.
	Depends    []string `json:"depends"`
	Constrains []string `json:"constrains,omitempty"`
	// TrackFeatures gives a record a lower priority than one without.
	TrackFeatures []string `json:"track_features,omitempty"`
	// NoArch is "", "generic" or "python".
	NoArch string `json:"noarch,omitempty"`
	// PythonSitePackagesPath is set on records of python that define the folder of packages
	// (CEP 17), e.g. "lib/python3.13/site-packages".
	PythonSitePackagesPath string `json:"python_site_packages_path,omitempty"`
	// Timestamp is in milliseconds since the epoch; 0 if unknown.
	Timestamp int64 `json:"timestamp,omitempty"`
	// Size is the artifact's size in bytes; 0 if unknown.
	Size int64 `json:"size,omitempty"`
	// SHA256 and MD5 are of the artifact, in hex; "" if unknown.
	SHA256 string `json:"sha256,omitempty"`
	MD5    string `json:"md5,omitempty"`
	// License and LicenseFamily are as the channel writes them.
	License       string `json:"license,omitempty"`
	LicenseFamily string `json:"license_family,omitempty"`
	// Channel is the channel's name or base URL, without a login.
	Channel string `json:"channel"`
	// Subdir is the platform's folder, e.g. "linux-64", "noarch".
	Subdir string `json:"subdir"`
	// FileName is the artifact's file name, e.g. "zlib-1.3.1-hb9d3cd8_2.conda".
	FileName string `json:"fn"`
	// URL is the artifact's address, without a login.
	URL string `json:"url"`
}

// MarshalJSON encodes a record as in channels and conda-meta: depends is always a list,
// since conda and rattler reject null.
func (r Record) MarshalJSON() ([]byte, error) {
	type plain Record // without this method
	if r.Depends == nil {
		r.Depends = []string{}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // the caller's encoder decides whether to escape < and >
	err := e.Encode(plain(r))
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// Needs returns the names of the packages that a record depends on.
func (r Record) Needs() []string {
	out := make([]string, 0, len(r.Depends))
	for _, d := range r.Depends {
		if name := r.Need(d); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Need returns the name of the package that a dependency of the record requires, or "" if it
// only applies to an extra of a wheel.
func (r Record) Need(dependency string) string {
	if r.IsWheel() {
		return RequiredName(dependency)
	}
	return DependencyName(dependency)
}

// DependencyName returns the package name of a dependency.
func DependencyName(spec string) string {
	return spec[:leading(spec, isNameLetter)]
}

// SameArtifact reports whether two records describe the same file: by a hash that both
// have, otherwise by address.
func (r Record) SameArtifact(other Record) bool {
	switch {
	case r.FileName != other.FileName:
		return false
	case r.SHA256 != "" && other.SHA256 != "":
		return r.SHA256 == other.SHA256
	case r.MD5 != "" && other.MD5 != "":
		return r.MD5 == other.MD5
	}
	return r.URL == other.URL
}

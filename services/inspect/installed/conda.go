package installed

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// A Record is what a package manager records about an installed package. Name and Version are not
// empty; other members may be, and most are of Conda packages only.
type Record struct {
	Name    string
	Version string
	Build   string
	// Channel is the channel's name or URL, as the installer wrote it, without a login. For R packages
	// it is the type of package URL of the repository.
	Channel string
	Subdir  string
	// Arch is the architecture, as the manager writes it.
	Arch string
	// Source is the name of the source package of a distribution, if it differs from Name, or if SourceVersion is
	// set: the version of the source package, if it differs from Version.
	Source, SourceVersion string

	License string
	// URL is the address of the artifact, without a login.
	URL    string
	MD5    string
	SHA256 string
	// Size is the artifact's length in bytes; 0 if it is unknown.
	Size int64
}

// conda returns the manager of Conda packages: conda, mamba, micromamba, pixi or rattler. Records are
// <prefix>/conda-meta/*.json.
func conda() Manager {
	return Manager{
		Kind: Conda,
		isRecord: func(name string) bool {
			return strings.HasSuffix(name, ".json") && path.Base(path.Dir(name)) == "conda-meta"
		},
		parse: func(raw []byte, yield func(Record) bool) { yield(parseConda(raw)) },
	}
}

// parseConda decodes a record. The result is invalid if raw is not a record.
func parseConda(raw []byte) Record {
	var in struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Build   string `json:"build"`
		Old     string `json:"build_string"` // older versions of conda
		Channel string `json:"channel"`
		Subdir  string `json:"subdir"`
		License string `json:"license"`
		URL     string `json:"url"`
		MD5     string `json:"md5"`
		SHA256  string `json:"sha256"`
		Size    int64  `json:"size"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Record{}
	}
	return Record{
		Name: in.Name, Version: in.Version, Build: cmp.Or(in.Build, in.Old), Channel: spec.WithoutLogin(in.Channel), Subdir: in.Subdir,
		License: in.License, URL: spec.WithoutLogin(in.URL), MD5: in.MD5, SHA256: in.SHA256, Size: max(in.Size, 0),
	}
}

// isValid reports whether a record has a name and a version, and members within limits.ImageRecordField.
func (r Record) isValid() bool {
	return r.Name != "" && r.Version != "" && !slices.ContainsFunc(r.texts(), func(s string) bool { return len(s) > limits.ImageRecordField })
}

func (r Record) texts() []string {
	return []string{r.Name, r.Version, r.Build, r.Channel, r.Subdir, r.Arch, r.Source, r.SourceVersion, r.License, r.URL, r.MD5, r.SHA256}
}

// clone returns a copy that does not keep the file in memory that the members were parsed from.
func (r Record) clone() Record {
	for _, s := range []*string{&r.Name, &r.Version, &r.Build, &r.Channel, &r.Subdir, &r.Arch, &r.Source, &r.SourceVersion, &r.License, &r.URL, &r.MD5, &r.SHA256} {
		*s = strings.Clone(*s)
	}
	return r
}

// size returns the approximate memory that r uses, in bytes.
func (r Record) size() int64 {
	n := 0
	for _, s := range r.texts() {
		n += len(s)
	}
	return int64(n)
}

func (r Record) compare(other Record) int {
	return cmp.Or(strings.Compare(r.Name, other.Name), strings.Compare(r.Version, other.Version), strings.Compare(r.Build, other.Build))
}

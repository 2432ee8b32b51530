package artifact

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"path"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// noarchPython is the noarch value of packages whose files are installed into the
// environment's Python folders.
const noarchPython = "python"

// index is the used part of info/index.json.
type index struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Build   string `json:"build"`
	Noarch  any    `json:"noarch"` // "python", "generic", or true in old packages
	// Timestamp is in milliseconds since the epoch.
	Timestamp float64 `json:"timestamp"`

	// Fields that complete the records of sparse locks, which only have a URL and a hash.
	// They are stored as written; malformed values are omitted.
	Depends      json.RawMessage `json:"depends"`
	Constrains   json.RawMessage `json:"constrains"`
	BuildNumber  json.RawMessage `json:"build_number"`
	License      json.RawMessage `json:"license"`
	Family       json.RawMessage `json:"license_family"`
	SitePackages json.RawMessage `json:"python_site_packages_path"`
}

// complete completes the record of a sparse lock from the artifact, as conda does. Records
// of a channel have a size or a time, and are already complete.
func (x *index) complete(rec spec.Record) spec.Record {
	if rec.Size != 0 || rec.Timestamp != 0 {
		return rec
	}
	rec.Timestamp = x.buildTime().UnixMilli()
	if rec.Depends == nil {
		optional(x.Depends, &rec.Depends)
	}
	if rec.Constrains == nil {
		optional(x.Constrains, &rec.Constrains)
	}
	if rec.BuildNumber == 0 {
		optional(x.BuildNumber, &rec.BuildNumber)
	}
	if rec.License == "" {
		optional(x.License, &rec.License)
		optional(x.Family, &rec.LicenseFamily)
	}
	if rec.PythonSitePackagesPath == "" {
		optional(x.SitePackages, &rec.PythonSitePackagesPath)
	}
	switch x.Noarch {
	case noarchPython, "generic":
		rec.NoArch, _ = x.Noarch.(string)
	case true:
		rec.NoArch = "generic"
	}
	return rec
}

// optional decodes a value, and leaves to unchanged if that fails.
func optional[T any](raw json.RawMessage, to *T) {
	var v T
	if len(raw) > 0 && json.Unmarshal(raw, &v) == nil {
		*to = v
	}
}

// link is info/link.json.
type link struct {
	Noarch struct {
		Type        string   `json:"type"`
		EntryPoints []string `json:"entry_points"`
	} `json:"noarch"`
}

// readInfo reads the package's info folder.
func (a *Artifact) readInfo(ctx context.Context) error {
	i := info{artifact: a, seen: map[string]bool{}}
	if err := a.walk(ctx, a.info, i.read); err != nil {
		return err
	}
	if !i.seen["info/index.json"] {
		return invalid("it has no info/index.json")
	}
	if err := a.index.check(); err != nil {
		return err
	}
	var err error
	a.paths, err = i.listed()
	return err
}

// check rejects values that cannot be part of a file name.
func (x *index) check() error {
	for _, s := range []string{x.Name, x.Version, x.Build} {
		if s == "" || len(s) > 255 || path.Base(s) != s || s[0] == '.' {
			return invalid("its info/index.json has no proper name, version and build")
		}
	}
	return nil
}

// info collects the files of the info folder.
type info struct {
	artifact *Artifact
	seen     map[string]bool
	// modern is info/paths.json; the other fields are read from packages without it.
	modern, files *paths
	prefixes      []hasPrefix
	noLink        []string
}

// read reads one file. In a .tar.bz2 the info folder is among the other files. Tools write
// it first, but the format does not require that, so all entries are read.
func (i *info) read(h *tar.Header, name string, content io.Reader) (err error) {
	if path.Dir(name) != "info" || h.Typeflag == tar.TypeDir {
		return nil
	}
	switch name {
	case "info/index.json":
		err = decode(content, &i.artifact.index)
	case "info/link.json":
		err = decode(content, &i.artifact.link)
	case "info/about.json":
		if h.Typeflag == tar.TypeReg {
			i.artifact.about = readAbout(content)
		}
		return nil
	case "info/paths.json":
		i.modern, err = readPaths(content)
	case "info/files":
		i.files, err = readFiles(content)
	case "info/has_prefix":
		i.prefixes, err = readHasPrefix(content)
	case "info/no_link":
		i.noLink, err = readLines(content)
	default:
		return nil
	}
	if h.Typeflag != tar.TypeReg || i.seen[name] {
		return invalid("%s is no file, or occurs twice", name)
	}
	i.seen[name] = true
	if err != nil {
		return fault.In(name, err)
	}
	return nil
}

// listed returns the paths that the package installs.
func (i *info) listed() (*paths, error) {
	if i.modern != nil {
		return i.modern, nil
	}
	if i.files == nil {
		return nil, invalid("it has neither info/paths.json nor info/files")
	}
	for _, p := range i.prefixes {
		i.files.placeholder(p)
	}
	for _, name := range i.noLink {
		if at, ok := i.files.at[name]; ok {
			i.files.list[at].NoLink = true
		}
	}
	return i.files, nil
}

// decode decodes a small JSON document.
func decode(in io.Reader, v any) error {
	raw, err := io.ReadAll(io.LimitReader(in, limits.ArtifactInfo+1))
	if err != nil {
		return err
	}
	if len(raw) > limits.ArtifactInfo {
		return invalid("it is longer than %d MiB", limits.ArtifactInfo>>20)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.Invalid.New("it is malformed", err)
	}
	return nil
}

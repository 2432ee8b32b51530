package artifact

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"path"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// noarchPython is the kind of package whose files go below a Python's folders.
const noarchPython = "python"

// index is what is used of info/index.json.
type index struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Build   string `json:"build"`
	Noarch  any    `json:"noarch"` // "python", "generic", and true in old packages
	// Timestamp is milliseconds since the epoch.
	Timestamp float64 `json:"timestamp"`
}

// link is info/link.json.
type link struct {
	Noarch struct {
		Type        string   `json:"type"`
		EntryPoints []string `json:"entry_points"`
	} `json:"noarch"`
}

// readInfo reads what the info folder says of the package.
func (a *Artifact) readInfo(ctx context.Context) error {
	i := info{artifact: a, seen: map[string]bool{}}
	if err := a.walk(ctx, a.info, i.read); err != nil {
		return err
	}
	if !i.seen["info/index.json"] {
		return bad("it has no info/index.json")
	}
	if err := a.index.check(); err != nil {
		return err
	}
	var err error
	a.paths, err = i.listed()
	return err
}

// check refuses what could not be the name of a file.
func (x *index) check() error {
	for _, s := range []string{x.Name, x.Version, x.Build} {
		if s == "" || len(s) > 255 || path.Base(s) != s || s[0] == '.' {
			return bad("its info/index.json has no proper name, version and build")
		}
	}
	return nil
}

// info gathers the files of the info folder.
type info struct {
	artifact *Artifact
	seen     map[string]bool
	// modern is info/paths.json; the others are what packages had before it.
	modern, files *paths
	prefixes      []hasPrefix
	noLink        []string
}

// read takes one file. In a .tar.bz2 the folder lies among the files; tools put it
// first, but nothing says they must: so all is looked at.
func (i *info) read(h *tar.Header, name string, content io.Reader) (err error) {
	if path.Dir(name) != "info" || h.Typeflag == tar.TypeDir {
		return nil
	}
	switch name {
	case "info/index.json":
		err = decode(content, &i.artifact.index)
	case "info/link.json":
		err = decode(content, &i.artifact.link)
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
		return bad("%s is no file, or comes twice", name)
	}
	i.seen[name] = true
	if err != nil {
		return fault.In(name, err)
	}
	return nil
}

// listed is what the package installs.
func (i *info) listed() (*paths, error) {
	if i.modern != nil {
		return i.modern, nil
	}
	if i.files == nil {
		return nil, bad("it has neither info/paths.json nor info/files")
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

// decode reads a small JSON document.
func decode(in io.Reader, v any) error {
	raw, err := io.ReadAll(io.LimitReader(in, limits.ArtifactInfo+1))
	if err != nil {
		return err
	}
	if len(raw) > limits.ArtifactInfo {
		return bad("it is longer than %d MiB", limits.ArtifactInfo>>20)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.Invalid.New("it is malformed", err)
	}
	return nil
}

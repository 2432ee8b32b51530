package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"

	"slipway.dev/services/internal/limits"
)

// Installed describes an installed package.
type Installed struct {
	// Bytes is the total size of its files.
	Bytes int64
	// LinkScripts are the scripts that installers run when the package is linked.
	LinkScripts []Script
	// Activation holds the files of etc/conda/activate.d and env_vars.d, in the order of
	// the archive.
	Activation []Script

	index index
	paths []listed
}

// A Script is a small file that contains commands or variables.
type Script struct {
	// Path is relative to the prefix.
	Path string `json:"path"`
	// Text is the file's content, as installed.
	Text string `json:"text"`
}

// SHA256 returns the digest of the text in hex.
func (s Script) SHA256() string {
	sum := sha256.Sum256([]byte(s.Text))
	return hex.EncodeToString(sum[:])
}

// Paths calls f with each installed path, and whether it is a folder.
func (in *Installed) Paths(f func(path string, folder bool)) {
	for i := range in.paths {
		f(in.paths[i].path, in.paths[i].kind == kindDirectory)
	}
}

// isScript reports whether installers run the file when they link the package.
func isScript(pkg, file string) bool {
	dir, name := path.Split(file)
	if dir != "bin/" {
		return false
	}
	action, ok := strings.CutPrefix(name, "."+pkg+"-")
	return ok && (action == "pre-link.sh" || action == "post-link.sh")
}

// isActivation reports whether the file is used when an environment is activated.
func isActivation(file string) bool {
	switch path.Dir(file) {
	case "etc/conda/activate.d":
		return path.Ext(file) == ".sh"
	case "etc/conda/env_vars.d":
		return path.Ext(file) == ".json"
	}
	return false
}

// watch reads a script in advance and records it.
func (in *Installed) watch(a *Artifact, e Entry, content io.Reader) (io.Reader, error) {
	into := &in.Activation
	switch {
	case isScript(a.index.Name, e.Path):
		into = &in.LinkScripts
	case !isActivation(e.Path):
		return content, nil
	}
	if e.Size > limits.ArtifactScript || len(in.LinkScripts)+len(in.Activation) == limits.ArtifactScripts {
		return nil, invalid("%s is longer than %d KiB, or one of more than %d scripts", clip(e.Path), limits.ArtifactScript>>10, limits.ArtifactScripts)
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, content); err != nil {
		return nil, err
	}
	*into = append(*into, Script{Path: e.Path, Text: b.String()})
	return bytes.NewReader(b.Bytes()), nil
}

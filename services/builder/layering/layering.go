// Package layering makes layers of Conda packages, and images of such layers. No
// package is installed for that, and nothing of one is run.
//
// The layer of a package is a pure function of its artifact, its record in the
// lock, the prefix, the Python beside it where it is for any, and Version: it has
// the same bytes on every machine and in every run, so it is made once, and known
// from then on (Store). What it holds decides package artifact; this one decides
// how it is written down, and in which order layers lie on each other.
package layering

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/conda"
)

// Version is that of the way layers are written. With another one, no layer that
// is known stays so: it goes up when a byte of a layer changes, also by a library.
const Version = 1

// Prefix is where environments are in images.
const Prefix = "/opt/conda"

// Compression is how layers are compressed: Gzip or Zstd, or one of these At a level. It
// is in the keys of layers as it is.
type Compression string

// Every engine reads gzip; zstd is smaller, and for engines since about 2022.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// At is the same with a level: of gzip 0 to 9, of zstd 1 to 22. Levels of zstd that its
// encoder does not tell apart give the same bytes.
func (c Compression) At(level int) Compression {
	return Compression(fmt.Sprintf("%s:%d", c, level))
}

// split is what is asked for; isAt is false where that is no level.
func (c Compression) split() (kind Compression, level int, isAt bool) {
	name, text, isAt := strings.Cut(string(c), ":")
	level, err := strconv.Atoi(text)
	return Compression(name), level, isAt && err == nil
}

// Layer is a layer of an image.
type Layer struct {
	MediaType string `json:"mediaType"`
	// Digest and Size, in bytes, are of the compressed tar; DiffID is of the tar.
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
	DiffID digest.Digest `json:"diffId"`
	// By is what made it, for the image's history.
	By string `json:"by,omitempty"`
}

// Package is a package's layer, and what has to be known of it to make images.
type Package struct {
	Layer
	// Installed is the length of its files, in bytes.
	Installed int64 `json:"installed"`
	// Paths are below the prefix, in the order of the layer; folders, where the package
	// has them for themselves, end with "/".
	Paths []string `json:"paths"`
	// HardLinks are paths that are another file of the package.
	HardLinks map[string]string `json:"hardLinks,omitempty"`
	// LinkScripts are what installers would run; Activation what shells would, on
	// entering the environment.
	LinkScripts []artifact.Script `json:"linkScripts,omitempty"`
	Activation  []artifact.Script `json:"activation,omitempty"`
}

// Key names a layer before it is made.
type Key string

// keyOf names the layer of a package. The record is in it because it is in the
// layer, as conda-meta: a channel that corrects what it says of an artifact gives
// another layer.
func keyOf(rec conda.Record, at artifact.Place, c Compression, scope string) (Key, error) {
	record, err := json.Marshal(rec)
	if err != nil {
		return "", err
	}
	return hashed("package", fmt.Sprint(Version), string(c), at.Prefix, at.Python.Minor, at.Python.SitePackages, string(record), scope), nil
}

// groupKey names the layer of several packages.
func groupKey(members []Package, c Compression) Key {
	facts := []string{"group", fmt.Sprint(Version), string(c)}
	for _, p := range members {
		facts = append(facts, p.DiffID.String())
	}
	return hashed(facts...)
}

func hashed(facts ...string) Key {
	h := sha256.New()
	for _, f := range facts {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(f), f) // a hash takes everything
	}
	return Key(hex.EncodeToString(h.Sum(nil)))
}

// PythonOf is the interpreter of an environment; the zero value where it has none.
func PythonOf(records []conda.Record) (artifact.Python, error) {
	for _, r := range records {
		if r.Name == "python" {
			return artifact.PythonOf(r.Version, r.Build, r.PythonSitePackagesPath)
		}
	}
	return artifact.Python{}, nil
}

// placeOf is where a package is installed. Only those that are for any Python may
// depend on the one that is there.
func placeOf(rec conda.Record, python artifact.Python, scratch string) artifact.Place {
	at := artifact.Place{Prefix: Prefix, Scratch: scratch}
	if rec.NoArch == "python" || rec.NoArch == "" && rec.Subdir == "noarch" {
		at.Python = python
	}
	return at
}

// mediaType is that of layers with a compression.
func (c Compression) mediaType() string {
	if kind, _, _ := c.split(); kind == Zstd {
		return ocispec.MediaTypeImageLayerZstd
	}
	return ocispec.MediaTypeImageLayerGzip
}

// counter counts what passes.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

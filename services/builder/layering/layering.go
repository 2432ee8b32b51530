// Package layering makes layers of Conda packages, and images of such layers. No
// package is installed for that, and nothing of one is run.
//
// The layer of a package is a pure function of its artifact, its record in the
// lock, the prefix, the Python beside it where it is for any, and conda.LayerVersion: it has
// the same bytes on every machine and in every run, so it is made once, and known
// from then on (Store). What it holds decides package artifact; this one decides
// how it is written down, and in which order layers lie on each other.
package layering

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/conda"
)

// Compression is how layers are compressed: Gzip or Zstd, or one of these At a level. It
// is in the keys of layers as it is.
type Compression string

// Every engine reads gzip; zstd is smaller, and for engines since about 2022.
const (
	Gzip Compression = conda.Gzip
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

// groupKey names the layer of several packages.
func groupKey(members []Package, c Compression) conda.LayerKey {
	facts := []string{"group", fmt.Sprint(conda.LayerVersion), string(c)}
	for _, p := range members {
		facts = append(facts, p.DiffID.String())
	}
	return conda.HashLayer(facts...)
}

// placeOf is where a package is installed. Only those that are for any Python may
// depend on the one that is there.
func placeOf(rec conda.Record, python conda.Python, scratch string) artifact.Place {
	at := artifact.Place{Prefix: conda.Prefix, Scratch: scratch}
	if rec.ForAnyPython() {
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

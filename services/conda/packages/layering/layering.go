// Package layering creates layers of Conda packages, and images of such layers, without
// installing or running anything.
//
// The layer of a package is a pure function of its artifact, its record in the lock, the
// prefix, the environment's Python (for noarch packages), and conda.LayerVersion. It has
// the same bytes on every machine and in every run, so it is created once and then found in
// the Store. Package artifact determines the content of a layer; this package determines
// its encoding and the order of layers.
package layering

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/mount/pack"
)

// Compression is the compression of layers, or one of them with a level (At). It is a part of the
// keys of layers.
type Compression string

// Compressions. Every engine reads gzip. Zstd is smaller, and requires engines since about
// 2022. The files of layers with Estargz, which is gzip, and ZstdChunked, which is zstd, can be
// fetched one by one (package chunked). Layers with Erofs and ErofsZstd are EROFS images instead of tars,
// as they are and compressed with zstd (package erofslayer). Mounted are no layers, but the blobs of
// packages that are mounted (package pack).
const (
	Gzip        Compression = spec.Gzip
	Zstd        Compression = "zstd"
	Estargz     Compression = "estargz"
	ZstdChunked Compression = "zstd-chunked"
	Erofs       Compression = "erofs"
	ErofsZstd   Compression = "erofs-zstd"
	Mounted     Compression = "mounted"
)

// At returns the compression with a level: 0 to 9 for gzip and Estargz, 1 to 22 for zstd,
// ZstdChunked and ErofsZstd. Erofs has none. Levels that the zstd encoder does not distinguish produce the same bytes.
func (c Compression) At(level int) Compression {
	return Compression(fmt.Sprintf("%s:%d", c, level))
}

// split returns the kind and the level; isAt is false if there is no valid level.
func (c Compression) split() (kind Compression, level int, isAt bool) {
	name, text, isAt := strings.Cut(string(c), ":")
	level, err := strconv.Atoi(text)
	return Compression(name), level, isAt && err == nil
}

// isErofs reports whether layers are EROFS images.
func (c Compression) isErofs() bool {
	kind, _, _ := c.split()
	return kind == Erofs || kind == ErofsZstd
}

// A Layer is a layer of an image.
type Layer struct {
	MediaType string `json:"mediaType"`
	// Digest and Size, in bytes, describe the compressed tar, and DiffID the tar; the EROFS image for
	// Erofs and ErofsZstd. For Mounted they describe the blob, and DiffID its index, which determines all
	// contents of the blob.
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
	DiffID digest.Digest `json:"diffId"`
	// By is the layer's entry in the image's history.
	By string `json:"by,omitempty"`
	// Annotations are those of its descriptor in the image; nil for none.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A Package is a package's layer, with the facts that images need.
type Package struct {
	Layer
	// Installed is the total size of its files in bytes.
	Installed int64 `json:"installed"`
	// Paths are the paths below the prefix in the order of the layer. Folders that the
	// package lists end with "/".
	Paths []string `json:"paths"`
	// HardLinks maps paths to the file of the package that they link to.
	HardLinks map[string]string `json:"hardLinks,omitempty"`
	// LinkScripts are the scripts that installers run, and Activation those that shells run
	// when they activate the environment.
	LinkScripts []artifact.Script `json:"linkScripts,omitempty"`
	Activation  []artifact.Script `json:"activation,omitempty"`
	// About is what the package states about itself; zero for wheels.
	About artifact.About `json:"about,omitzero"`
}

// groupKey returns the key of a layer of several packages. It contains the digests of their
// blobs, because another worker may state a wrong diff id but not another digest.
func groupKey(members []Package, c Compression) spec.LayerKey {
	facts := []string{"group", fmt.Sprint(spec.LayerVersion), string(c)}
	for _, p := range members {
		facts = append(facts, p.Digest.String(), p.DiffID.String())
	}
	return spec.HashLayer(facts...)
}

// placeOf returns where a package is installed. Only noarch packages depend on the
// environment's Python.
func placeOf(rec spec.Record, python spec.Python, scratch string) artifact.Place {
	at := artifact.Place{Prefix: spec.Prefix, Scratch: scratch}
	if rec.ForAnyPython() {
		at.Python = python
	}
	return at
}

// mediaType returns the media type of layers with this compression.
func (c Compression) mediaType() string {
	kind, _, _ := c.split()
	if kind == Zstd || kind == ZstdChunked {
		return ocispec.MediaTypeImageLayerZstd
	}
	if kind == Erofs {
		return oci.TypeErofsLayer
	}
	if kind == ErofsZstd {
		return oci.TypeErofsLayerZstd
	}
	if kind == Mounted {
		return pack.MediaType
	}
	return ocispec.MediaTypeImageLayerGzip
}

// counter counts written bytes.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

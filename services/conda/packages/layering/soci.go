package layering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// ztocKey returns the key of the zTOC of a layer. The facts restrict who may use it, if it was
// not made by the worker itself.
func ztocKey(layer digest.Digest, facts ...string) spec.LayerKey {
	return spec.HashLayer(append([]string{"ztoc", soci.Version, layer.String()}, facts...)...)
}

// writeZtoc writes the encoded zTOC of a layer.
func writeZtoc(of Layer, raw []byte, out io.Writer) (Package, error) {
	d := digest.FromBytes(raw)
	_, err := out.Write(raw)
	return Package{Layer: Layer{MediaType: ztoc.MediaType, Digest: d, Size: int64(len(raw)), DiffID: d, By: of.By}}, err
}

// Indexing is the input of Soci.
type Indexing struct {
	// Records and Packages are those of the environment.
	Records  []spec.Record
	Packages []Package
	Image    Image
	// Repository is the name of the image's repository with its registry's. The zTOCs of the layers
	// of base images are only used for images in the same repository.
	Repository string
	// Open opens a layer of the base image. Reading it fails at the end if its content does not
	// have the layer's digest.
	Open func(ctx context.Context, l ocispec.Descriptor) (io.ReadCloser, error)
	// Skipped, if not nil, is called with a layer that can have no zTOC, and the reason. It may be
	// called concurrently.
	Skipped func(l ocispec.Descriptor, why error)
	// Prefetch are the paths of files that are prefetched. Prefetched, if not nil, is called with what was found.
	Prefetch   []string
	Prefetched func(found soci.Prefetched)
}

// Soci returns an image with a SOCI index: the image, whose manifest refers to the index, and the
// documents of the index. ok is false if no layer of the image gets a zTOC. The zTOCs of layers
// that this worker has compressed are in the store, or are pushed by another worker. Other layers
// are read. If a layer was lost, the error is fault.NotFound.
func (m *Builder) Soci(ctx context.Context, in Indexing) (image Image, index soci.Image, ok bool, err error) {
	image = in.Image
	layers, err := soci.Layers(image.Manifest)
	if err != nil {
		return image, index, false, err
	}
	own, err := m.ownZtocs(ctx, in, layers)
	if err != nil {
		return image, index, false, err
	}
	var ztocs []soci.Ztoc
	stored := map[digest.Digest]Layer{}
	for _, l := range layers {
		p, isOwn := own[l.Digest]
		if !isOwn {
			if p, err = m.foreignZtoc(ctx, in, l); err != nil {
				return image, index, false, err
			}
		}
		if p.Digest != "" {
			ztocs = append(ztocs, soci.Ztoc{Layer: l, Digest: p.Digest, Size: p.Size})
			stored[l.Digest] = p.Layer
		}
	}
	if len(ztocs) == 0 {
		return image, index, false, nil
	}
	artifacts, err := m.prefetch(ctx, in, stored)
	if err != nil {
		return image, index, false, err
	}
	index, err = soci.Enable(image.Manifest, image.Manifest, image.Platform, ztocs, artifacts...)
	image.Manifest = index.Manifest
	return image, index, err == nil, err
}

// ownZtocs returns the zTOCs of those layers that have packages, by the digests of the layers. It
// is the zero Package for a layer that can have none.
func (m *Builder) ownZtocs(ctx context.Context, in Indexing, layers []ocispec.Descriptor) (map[digest.Digest]Package, error) {
	w := &batch{Builder: m}
	var of []ocispec.Descriptor
	for _, l := range layers {
		own := slices.IndexFunc(in.Image.Layers, func(o Layer) bool { return o.Digest == l.Digest })
		if own < 0 {
			continue
		}
		layer, key, which := in.Image.Layers[own], ztocKey(l.Digest), slices.IndexFunc(in.Packages, func(p Package) bool { return p.Digest == l.Digest })
		it := item{key: key, mediaType: ztoc.MediaType}
		if which >= 0 { // otherwise it is a layer of several packages, which workers do not share
			it.rec = in.Records[which]
		}
		it.build = func(ctx context.Context) (Package, error) {
			return m.Store.Keep(ctx, key, func(out io.Writer) (Package, error) { return m.readOwn(ctx, in, layer, which, out) })
		}
		w.items, of = append(w.items, it), append(of, l)
	}
	w.skip = func(i int, err error) bool { return in.skip(of[i], err) }
	found, err := w.build(ctx)
	if err != nil {
		return nil, err
	}
	out := map[digest.Digest]Package{}
	for i, p := range found {
		out[of[i].Digest] = p
	}
	return out, nil
}

// readOwn reads the zTOC of a layer with the package which, or of a layer of several packages if
// which is negative.
func (m *Builder) readOwn(ctx context.Context, in Indexing, layer Layer, which int, out io.Writer) (Package, error) {
	if which >= 0 {
		one := []Package{in.Packages[which]}
		if err := m.gather(ctx, in.Records[which:which+1], one, []int{0}); err != nil {
			return Package{}, err
		}
		if one[0].Digest != layer.Digest {
			return Package{}, fault.NotFound.Newf("The layer of %s was lost", layer.By)
		}
	}
	blob, err := m.Store.Open(ctx, layer)
	if err != nil {
		return Package{}, err
	}
	defer func() { _ = blob.Close() }()
	raw, err := soci.Read(layer.descriptor(), blob)
	if err != nil {
		return Package{}, fmt.Errorf("reading the layer %s: %w", layer.Digest, err)
	}
	return writeZtoc(layer, raw, out)
}

// foreignZtoc returns the zTOC of a layer of the base image or of the configuration, or the zero
// Package if it can have none.
func (m *Builder) foreignZtoc(ctx context.Context, in Indexing, l ocispec.Descriptor) (Package, error) {
	p, err := m.Store.Keep(ctx, ztocKey(l.Digest, in.Repository, l.MediaType), func(out io.Writer) (Package, error) { return in.readOther(ctx, l, out) })
	if err != nil && in.skip(l, err) {
		return Package{}, nil
	}
	return p, err
}

// readOther writes the zTOC of the image's own layer, or of a layer of the base image or of the configuration.
func (in Indexing) readOther(ctx context.Context, l ocispec.Descriptor, out io.Writer) (Package, error) {
	layer := io.NopCloser(bytes.NewReader(in.Image.OwnBlob))
	if l.Digest != in.Image.Own.Digest {
		var err error
		if layer, err = in.Open(ctx, l); err != nil {
			return Package{}, err
		}
	}
	defer func() { _ = layer.Close() }()
	raw, err := soci.Read(l, layer)
	if err != nil {
		return Package{}, fmt.Errorf("reading the layer %s: %w", l.Digest, err)
	}
	return writeZtoc(Layer{}, raw, out)
}

// skip reports whether an error means that a layer can have no zTOC.
func (in Indexing) skip(l ocispec.Descriptor, err error) bool {
	if !errors.Is(err, ztoc.ErrInvalid) {
		return false
	}
	if in.Skipped != nil {
		in.Skipped(l, err)
	}
	return true
}

// PushSoci pushes a SOCI index without a tag. The image refers to it, and the caller pushes both
// the image and the index that lists them. It returns the number of bytes of zTOCs that
// the registry did not have, and ErrEvicted if a zTOC was evicted.
func (m *Builder) PushSoci(ctx context.Context, to Registry, index soci.Image) (sent int64, err error) {
	if err := put(ctx, to, describe(index.Config), bytes.NewReader(index.Config.Bytes)); err != nil {
		return 0, err
	}
	for _, z := range index.Ztocs {
		n, err := m.send(ctx, to, Layer{MediaType: ztoc.MediaType, Digest: z.Digest, Size: z.Size, By: "zTOC of " + z.Layer.Digest.String()})
		if err != nil {
			return sent, err
		}
		sent += n
	}
	for _, a := range index.Prefetch {
		if err := put(ctx, to, describe(a.Document), bytes.NewReader(a.Document.Bytes)); err != nil {
			return sent, err
		}
	}
	return sent, to.Manifest(ctx, index.Index, false)
}

// NoteZtocs records the zTOCs of a pushed image that this worker has made, for other workers.
func (m *Builder) NoteZtocs(ctx context.Context, records []spec.Record, packages []Package, index soci.Image) {
	pushed := map[digest.Digest]digest.Digest{}
	for _, z := range index.Ztocs {
		pushed[z.Layer.Digest] = z.Digest
	}
	m.noteAll(ctx, records, func(i int) (spec.LayerKey, digest.Digest) {
		return ztocKey(packages[i].Digest), pushed[packages[i].Digest]
	})
}

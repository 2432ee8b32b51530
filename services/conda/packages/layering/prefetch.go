package layering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// prefetch returns the prefetch artifacts of an image. stored are the zTOCs of its SOCI index, by the
// digests of their layers.
func (m *Builder) prefetch(ctx context.Context, in Indexing, stored map[digest.Digest]Layer) ([]soci.Artifact, error) {
	if len(in.Prefetch) == 0 {
		return nil, nil
	}
	manifest, err := oci.ParseManifest(in.Image.Manifest)
	if err != nil {
		return nil, err
	}
	var files soci.Prefetch
	for _, l := range manifest.Layers {
		z, hasZtoc := stored[l.Digest]
		raw, err := m.listing(ctx, in, l, z)
		if err != nil {
			return nil, err
		}
		if err := files.Add(l, raw, hasZtoc); err != nil {
			return nil, err
		}
	}
	found, err := files.Resolve(in.Prefetch)
	if err == nil && in.Prefetched != nil {
		in.Prefetched(found)
	}
	return found.Artifacts, err
}

// listing returns the encoded zTOC of a layer: the stored one, if it is known and was made by this worker.
// Otherwise it is read from the layer. It is nil for a layer that can have none.
func (m *Builder) listing(ctx context.Context, in Indexing, l ocispec.Descriptor, stored Layer) ([]byte, error) {
	if stored.Digest != "" {
		raw, err := m.readAll(ctx, stored)
		if !errors.Is(err, fault.NotFound) {
			return raw, err
		}
	}
	if !soci.CanList(l) || stored.Digest == "" && soci.HasZtoc(l) {
		return nil, nil
	}
	p, err := m.Store.Keep(ctx, ztocKey(l.Digest, "files", in.Repository, l.MediaType), func(out io.Writer) (Package, error) {
		if own := slices.IndexFunc(in.Image.Layers, func(o Layer) bool { return o.Digest == l.Digest }); own >= 0 {
			which := slices.IndexFunc(in.Packages, func(p Package) bool { return p.Digest == l.Digest })
			return m.readOwn(ctx, in, in.Image.Layers[own], which, out)
		}
		return in.readOther(ctx, l, out)
	})
	if errors.Is(err, ztoc.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m.readAll(ctx, p.Layer)
}

// readAll returns the content of a stored blob.
func (m *Builder) readAll(ctx context.Context, l Layer) ([]byte, error) {
	blob, err := m.Store.Open(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	raw, err := io.ReadAll(io.LimitReader(blob, l.Size+1))
	if err == nil && int64(len(raw)) != l.Size {
		err = fmt.Errorf("the blob %s has another size", l.Digest)
	}
	return raw, err
}

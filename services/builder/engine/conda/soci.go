package conda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/soci"
)

// A sociIndex is the SOCI index of an image; nil if the image has none.
type sociIndex struct{ soci.Image }

// withSoci returns an image with a SOCI index, if the recipe requires one and a layer is large
// enough.
func (e *environment) withSoci(ctx context.Context, m *layering.Builder, packages []layering.Package, image layering.Image) (layering.Image, *sociIndex, error) {
	if !e.job.Recipe.GetSoci() {
		return image, nil, nil
	}
	image, index, ok, err := m.Soci(ctx, layering.Indexing{
		Records: e.records, Packages: packages, Image: image, Repository: e.job.RepositoryName(),
		Open: func(ctx context.Context, l ocispec.Descriptor) (io.ReadCloser, error) {
			return e.openOther(ctx, image, l)
		},
		Skipped: func(l ocispec.Descriptor, why error) {
			e.out.Print("", fmt.Sprintf("The layer %s is not in the SOCI index and is downloaded as a whole: %s", l.Digest, fault.Clip(why.Error(), limits.ZtocReason)))
		},
		Prefetch: e.job.Recipe.GetSociPrefetch(),
		Prefetched: func(found soci.Prefetched) {
			for _, line := range found.Log() {
				e.out.Print("soci", line)
			}
		},
	})
	if err != nil {
		return image, nil, asBuildError(err)
	}
	if !ok {
		e.out.Print("soci", "The image has no SOCI index: "+soci.NoLayer)
		return image, nil, nil
	}
	e.out.Print("soci", fmt.Sprintf("The SOCI index covers %d layers", len(index.Ztocs)))
	return image, &sociIndex{index}, nil
}

// openOther opens a layer of the base image or of the recipe's configuration.
func (e *environment) openOther(ctx context.Context, image layering.Image, l ocispec.Descriptor) (io.ReadCloser, error) {
	if slices.ContainsFunc(image.Base, func(b ocispec.Descriptor) bool { return b.Digest == l.Digest }) {
		return e.from.Open(ctx, l)
	}
	added := e.job.Recipe.GetConfig().GetLayers()
	which := slices.IndexFunc(added, func(a *containerv1.Layer) bool { return digest.Digest(a.GetGzipDigest()) == l.Digest })
	if which < 0 {
		return nil, fmt.Errorf("the layer %s is neither of the base image nor of the configuration", l.Digest)
	}
	return e.from.OpenAdded(ctx, added[which])
}

// pushSoci pushes the SOCI index of an image, nil for none, and returns the document that gets the
// name of the image.
func (e *environment) pushSoci(ctx context.Context, m *layering.Builder, to *repository, packages []layering.Package, image layering.Image, index *sociIndex) (oci.Document, error) {
	if index == nil {
		return image.Manifest, nil
	}
	sent, err := m.PushSoci(ctx, to, index.Image)
	if errors.Is(err, layering.ErrEvicted) {
		return oci.Document{}, fmt.Errorf("%w: %w", errLayerEvicted, err)
	}
	if err != nil {
		return oci.Document{}, e.to.Failed(ctx, "The SOCI index could not be pushed", err)
	}
	m.NoteZtocs(ctx, e.records, packages, index.Image)
	e.out.Print("", fmt.Sprintf("The SOCI index was pushed, with %s of zTOCs: %s", megabytes(sent), index.Root.Digest))
	return index.Root, nil
}

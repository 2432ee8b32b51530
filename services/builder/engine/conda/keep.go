package conda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/oci"
)

// The packages of a kept image are stored in its repository, as blobs with the digests of the lock. An
// artifact that refers to the image lists them, so that the registry retains them with the image. When the image
// is made again, they are used before the channels, which may have deleted them.

const (
	// typePackages is the type of the artifact.
	typePackages = "application/vnd.slipway.packages.v1"
	// typeConda, typeOldConda and typeWheel are the media types of packages; the first two are those of Conda's
	// channels in registries.
	typeConda    = "application/vnd.conda.package.v2"
	typeOldConda = "application/vnd.conda.package.v1"
	typeWheel    = "application/vnd.pypi.wheel.v1"
)

// storedPackage returns the function that opens a package in the image's repository; nil if the recipe does not
// store packages.
func (e *environment) storedPackage() func(context.Context, spec.Record) (io.ReadCloser, error) {
	if !e.job.Recipe.GetKeepPackages() {
		return nil
	}
	to := &repository{Target: e.to, base: e.from}
	return func(ctx context.Context, rec spec.Record) (io.ReadCloser, error) {
		return to.Get(ctx, packageBlob(rec))
	}
}

// packageBlob returns the descriptor of a package.
func packageBlob(rec spec.Record) ocispec.Descriptor {
	kind := typeOldConda
	switch {
	case strings.HasSuffix(rec.FileName, ".whl"):
		kind = typeWheel
	case strings.HasSuffix(rec.FileName, ".conda"):
		kind = typeConda
	}
	return ocispec.Descriptor{
		MediaType: kind, Digest: digest.NewDigestFromEncoded(digest.SHA256, strings.ToLower(rec.SHA256)), Size: rec.Size,
		Annotations: map[string]string{ocispec.AnnotationTitle: rec.FileName},
	}
}

// storePackages pushes the packages that the image's repository does not have, if the recipe requires that. A
// package that its channel has deleted is left out: the image can only be made again from its layer.
func (e *environment) storePackages(ctx context.Context, fetch *layering.Fetcher) error {
	if !e.job.Recipe.GetKeepPackages() {
		return nil
	}
	e.out.Print("fetch", fmt.Sprintf("Storing %d packages beside the image", len(e.records)))
	to := &repository{Target: e.to, base: e.from}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxStored)
	for _, rec := range e.records {
		g.Go(func() error { return e.storePackage(ctx, fetch, to, rec) })
	}
	return g.Wait()
}

// maxStored is the number of packages that are stored at once.
const maxStored = 2

func (e *environment) storePackage(ctx context.Context, fetch *layering.Fetcher, to *repository, rec spec.Record) error {
	if !isStorable(rec) {
		e.out.Print("", fmt.Sprintf("%s is not stored, since its channel does not state its SHA-256 and size", rec.FileName))
		return nil
	}
	blob := packageBlob(rec)
	if exists, err := to.Has(ctx, blob); exists || err != nil {
		return err
	}
	file, size, err := fetch.Fetch(ctx, rec)
	if errors.Is(err, layering.ErrOutdated) {
		e.out.Print("", fmt.Sprintf("%s is not stored, since its channel does not have it any more", rec.FileName))
		return nil
	}
	if err != nil {
		return asFailure(err)
	}
	defer func() { _ = file.Close() }()
	return e.to.Failed(ctx, "A package could not be stored beside the image", to.Put(ctx, blob, io.NewSectionReader(file, 0, size)))
}

// isStorable reports whether the blob of a package is known before it is fetched.
func isStorable(rec spec.Record) bool { return len(rec.SHA256) == 64 && rec.Size > 0 }

// pushKept pushes the artifact that lists the stored packages of an image, if the recipe requires that.
func (e *environment) pushKept(ctx context.Context, to *repository, image oci.Document) error {
	if !e.job.Recipe.GetKeepPackages() {
		return nil
	}
	var blobs []ocispec.Descriptor
	for _, rec := range e.records {
		blob := packageBlob(rec)
		if !isStorable(rec) {
			continue
		}
		exists, err := to.Has(ctx, blob)
		if err != nil {
			return err
		}
		if exists {
			blobs = append(blobs, blob)
		}
	}
	doc, err := packagesManifest(image, blobs)
	if err != nil || len(blobs) == 0 {
		return err
	}
	empty := ocispec.DescriptorEmptyJSON
	err = to.Put(ctx, ocispec.Descriptor{MediaType: empty.MediaType, Digest: empty.Digest, Size: empty.Size}, bytes.NewReader(empty.Data))
	if err == nil {
		err = to.Manifest(ctx, doc, false)
	}
	return e.to.Failed(ctx, "The list of the stored packages could not be pushed", err)
}

// packagesManifest returns the manifest of the artifact.
func packagesManifest(image oci.Document, blobs []ocispec.Descriptor) (oci.Document, error) {
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: typePackages,
		Config: ocispec.DescriptorEmptyJSON, Layers: blobs,
		Subject: &ocispec.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: int64(len(image.Bytes))},
	})
	return oci.Document{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(raw), Bytes: raw}, err
}

package conda

import (
	"context"
	"io"
	"strconv"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/oci"
)

// repository is the target of an environment's image. It implements layering.BlobSource.
type repository struct {
	*remote.Target
	// base is the base image.
	base *remote.Source
	// untagged reports whether the image gets no tag.
	untagged bool
}

// Has reports whether the repository has a blob of the stated length. If the check fails,
// the blob is sent, so that the registry reports the error.
func (r *repository) Has(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	there, err := r.Client.BlobHead(ctx, r.Ref, remote.BlobOf(d))
	if err != nil {
		return false, ctx.Err()
	}
	length := there.RawHeaders().Get("Content-Length")
	return length == "" || length == strconv.FormatInt(d.Size, 10), there.Close()
}

// Get opens a blob.
func (r *repository) Get(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return r.Client.BlobGet(ctx, r.Ref, remote.BlobOf(d))
}

// GetPart opens a part of a blob.
func (r *repository) GetPart(ctx context.Context, d ocispec.Descriptor, from, length int64) (io.ReadCloser, error) {
	return r.ReadPart(ctx, d, from, length)
}

// Put pushes a blob.
func (r *repository) Put(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	return r.PutBlob(ctx, remote.BlobOf(d), content)
}

// MountOrCopy mounts or copies a layer of the base image.
func (r *repository) MountOrCopy(ctx context.Context, d ocispec.Descriptor) error {
	_, err := r.Copy(ctx, r.base, d)
	return err
}

// Manifest pushes a document.
func (r *repository) Manifest(ctx context.Context, doc oci.Document, named bool) error {
	name := r.Ref
	if !named || r.untagged {
		name = name.SetDigest(doc.Digest.String())
	}
	return r.PutManifest(ctx, name, doc)
}

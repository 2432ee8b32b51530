package conda

import (
	"context"
	"io"
	"strconv"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/oci"
)

// repository is where the image of an environment goes: a layering.Shelf.
type repository struct {
	*remote.Target
	// base is the image that it is put on.
	base *remote.Source
	// nameless says that the image gets no name.
	nameless bool
}

// Has asks for a blob, which has the length that is said. What cannot be asked for is sent: then the registry says why
// not.
func (r *repository) Has(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	there, err := r.Client.BlobHead(ctx, r.Ref, remote.BlobOf(d))
	if err != nil {
		return false, ctx.Err()
	}
	length := there.RawHeaders().Get("Content-Length")
	return length == "" || length == strconv.FormatInt(d.Size, 10), there.Close()
}

// Get begins to read a blob.
func (r *repository) Get(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return r.Client.BlobGet(ctx, r.Ref, remote.BlobOf(d))
}

// Put sends a blob.
func (r *repository) Put(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	return r.PutBlob(ctx, remote.BlobOf(d), content)
}

// Bring has a layer of the base image mounted, or copies it.
func (r *repository) Bring(ctx context.Context, d ocispec.Descriptor) error {
	_, err := r.Copy(ctx, r.base, d)
	return err
}

// Manifest sends a document.
func (r *repository) Manifest(ctx context.Context, doc oci.Document, named bool) error {
	name := r.Ref
	if !named || r.nameless {
		name = name.SetDigest(doc.Digest.String())
	}
	return r.PutManifest(ctx, name, doc)
}

package remote

import (
	"context"
	"errors"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// AddLayers pushes the configuration's layers for a platform.
func (t *Target) AddLayers(ctx context.Context, c *containerv1.ContainerConfig, p ocispec.Platform) error {
	for _, l := range LayersFor(c, p) {
		if err := t.layer(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// LayersFor returns the configuration's layers for a platform.
func LayersFor(c *containerv1.ContainerConfig, p ocispec.Platform) []*containerv1.Layer {
	var out []*containerv1.Layer
	for _, l := range c.GetLayers() {
		if oci.IsForArchitecture(l, p.Architecture) {
			out = append(out, l)
		}
	}
	return out
}

// layer pushes a layer unless the repository has it.
func (t *Target) layer(ctx context.Context, l *containerv1.Layer) error {
	if from := l.GetIncludedFrom(); from != nil {
		image, err := t.included(ctx, from)
		if err != nil {
			return err
		}
		_, err = t.Copy(ctx, image, includedLayer(l))
		return err
	}
	d := descriptor.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.Digest(l.GetGzipDigest()), Size: l.GetGzipSize()}
	if there, err := t.Client.BlobHead(ctx, t.Ref, d); err == nil {
		return there.Close()
	}
	content, err := t.openLayer(ctx, l)
	if err != nil {
		return err
	}
	defer content.Close()
	checked, err := NewVerifier(content, l.GetGzipDigest(), l.GetGzipSize())
	if err != nil {
		return jobs.Build.Failure("A layer's digest is malformed", err)
	}
	if err := t.PutBlob(ctx, d, checked); err != nil {
		return err
	}
	if err := checked.Verify(); err != nil {
		return jobs.Build.Failure("A layer cannot be used: "+err.Error(), err)
	}
	return nil
}

// openLayer opens a layer of the request.
func (w session) openLayer(ctx context.Context, l *containerv1.Layer) (io.ReadCloser, error) {
	if from := l.GetIncludedFrom(); from != nil {
		image, err := w.included(ctx, from)
		if err != nil {
			return nil, err
		}
		return image.Open(ctx, includedLayer(l))
	}
	if IsURL(l.GetLocation()) {
		return w.Download(ctx, "A layer", l.GetLocation())
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := w.Layers.GetLayer(ctx, &containerv1.GetLayerRequest{GzipDigest: l.GetGzipDigest()})
	if err != nil {
		cancel()
		return nil, err
	}
	return Chunked(stream.Recv, cancel), nil
}

// OpenAdded opens a layer of the request. Reading it fails at the end if its content does
// not have the layer's digest.
func (o *Source) OpenAdded(ctx context.Context, l *containerv1.Layer) (io.ReadCloser, error) {
	content, err := o.openLayer(ctx, l)
	if err != nil {
		return nil, err
	}
	checked, err := NewVerifier(content, l.GetGzipDigest(), l.GetGzipSize())
	if err != nil {
		_ = content.Close()
		return nil, jobs.Build.Failure("A layer's digest is malformed", err)
	}
	return &untilEnd{checked, content, "A layer"}, nil
}

// untilEnd verifies a layer or another blob when it has been read.
type untilEnd struct {
	*Verifier
	io.Closer
	what string
}

// Read returns the next bytes, and at the end an error if the content is wrong.
func (u *untilEnd) Read(p []byte) (int, error) {
	n, err := u.Verifier.Read(p)
	if errors.Is(err, errTooLong) {
		return n, jobs.Build.Failure(u.what+" cannot be used: "+err.Error(), err)
	}
	if errors.Is(err, io.EOF) {
		if wrong := u.Verify(); wrong != nil {
			return n, jobs.Build.Failure(u.what+" cannot be used: "+wrong.Error(), wrong)
		}
	}
	return n, err
}

// included returns an image that the recipe includes, with the build's login for its
// repository. The Source can only open layers: the manifest was read when the request was
// made.
func (w session) included(ctx context.Context, from *containerv1.LayerOrigin) (*Source, error) {
	repo := upstream.Repository{Host: from.GetRegistry(), Name: from.GetRepository()}
	r, err := w.repository(ctx, repo)
	if err != nil {
		return nil, err
	}
	return &Source{Repository: r, Name: repo.Host + "/" + repo.Name + "@" + from.GetReference()}, nil
}

// includedLayer returns the descriptor of a layer in its included image.
func includedLayer(l *containerv1.Layer) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: l.GetIncludedFrom().GetMediaType(), Digest: digest.Digest(l.GetGzipDigest()), Size: l.GetGzipSize()}
}

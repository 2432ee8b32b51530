package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// world is what the engines reach for one job.
type world struct {
	RegistryDeps
	logins *logins
	try    string
}

// at is the world as a job reaches it.
func (d RegistryDeps) at(job Job, l *logins) world { return world{d, l, job.try()} }

// control is a client that pushes and copies, with one login.
func (d RegistryDeps) control(host string, a upstream.Access, mirrors []upstream.Mirror) *regclient.RegClient {
	o := upstream.Options{Egress: d.Egress, Mirrors: mirrors}
	for _, h := range append([]string{host}, hostsOf(mirrors)...) {
		if strings.HasPrefix(d.Registries.BaseURL(h), "http://") {
			o.Plain = append(o.Plain, h)
		}
	}
	return upstream.NewControl(o).For(a, host)
}

func hostsOf(mirrors []upstream.Mirror) []string {
	var out []string
	for _, m := range mirrors {
		out = append(out, m.Host)
	}
	return out
}

// target is where a build pushes to. An image gets its name when all else is
// there: nobody sees the half of one.
type target struct {
	world
	client *regclient.RegClient
	access upstream.Access
	repo   upstream.Repository
	ref    ref.Ref // the image's name
}

// target is where a job pushes to, with its login there.
func (d RegistryDeps) target(ctx context.Context, job Job, l *logins) (*target, error) {
	repo := job.repository()
	login, err := l.push(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("asking for the login at %s: %w", repo.Host, err)
	}
	name, err := ref.New(job.image())
	if err != nil {
		return nil, err
	}
	out := &target{
		world: d.at(job, l), ref: name, repo: repo, access: upstream.Access{Scope: job.try(), Login: login},
	}
	out.client = d.control(repo.Host, out.access, nil)
	return out, nil
}

// failed says what an error means that the registry answered while something was
// pushed; what is a failure already, or the end of ctx, stays.
func (t *target) failed(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*Failure)) {
		return err
	}
	if f, ok := fault.As(upstream.ControlFault(t.repo.Host, err)); ok {
		return &Failure{Push, what + ": " + f.Public, err}
	}
	return err
}

// addLayers pushes the layers of a configuration that are for a platform.
func (t *target) addLayers(ctx context.Context, c *containerv1.ContainerConfig, p ocispec.Platform) error {
	for _, l := range layersFor(c, p) {
		if err := t.layer(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// layersFor are the layers of a configuration that are for a platform.
func layersFor(c *containerv1.ContainerConfig, p ocispec.Platform) []*containerv1.Layer {
	var out []*containerv1.Layer
	for _, l := range c.GetLayers() {
		if oci.IsFor(l, p.Architecture) {
			out = append(out, l)
		}
	}
	return out
}

// document pushes a config.
func (t *target) document(ctx context.Context, doc oci.Document) error {
	return t.blob(ctx, describe(doc), bytes.NewReader(doc.Bytes))
}

func describe(doc oci.Document) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: doc.MediaType, Digest: doc.Digest, Size: int64(len(doc.Bytes))}
}

func (t *target) manifest(ctx context.Context, name ref.Ref, doc oci.Document) error {
	m, err := manifest.New(manifest.WithRaw(doc.Bytes), manifest.WithDesc(describe(doc)))
	if err != nil {
		return err
	}
	return t.client.ManifestPut(ctx, name, m)
}

func (t *target) blob(ctx context.Context, d descriptor.Descriptor, content io.Reader) error {
	_, err := t.client.BlobPut(ctx, t.ref, d, content)
	return err
}

// layer pushes a layer, unless it is there.
func (t *target) layer(ctx context.Context, l *containerv1.Layer) error {
	if from := l.GetIncludedFrom(); from != nil {
		image, err := t.included(ctx, from)
		if err != nil {
			return err
		}
		_, err = t.copy(ctx, image, includedLayer(l))
		return err
	}
	d := descriptor.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.Digest(l.GetGzipDigest()), Size: l.GetGzipSize()}
	if there, err := t.client.BlobHead(ctx, t.ref, d); err == nil {
		return there.Close()
	}
	content, err := t.openLayer(ctx, l)
	if err != nil {
		return err
	}
	defer content.Close()
	checked, err := newVerifier(content, l.GetGzipDigest(), l.GetGzipSize())
	if err != nil {
		return &Failure{Build, "A layer's digest is malformed", err}
	}
	if err := t.blob(ctx, d, checked); err != nil {
		return err
	}
	if err := checked.verify(); err != nil {
		return &Failure{Build, "A layer cannot be used: " + err.Error(), err}
	}
	return nil
}

// openLayer begins to read a layer of the request.
func (w world) openLayer(ctx context.Context, l *containerv1.Layer) (io.ReadCloser, error) {
	if from := l.GetIncludedFrom(); from != nil {
		image, err := w.included(ctx, from)
		if err != nil {
			return nil, err
		}
		return image.open(ctx, includedLayer(l))
	}
	if isURL(l.GetLocation()) {
		return w.download(ctx, "A layer", l.GetLocation())
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := w.Layers.GetLayer(ctx, &containerv1.GetLayerRequest{GzipDigest: l.GetGzipDigest()})
	if err != nil {
		cancel()
		return nil, err
	}
	return chunked(stream.Recv, cancel), nil
}

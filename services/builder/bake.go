package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/addition"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Layers streams the bytes of layers that came with requests.
// containerv1.ContainerServiceClient is one.
type Layers interface {
	GetLayer(ctx context.Context, req *containerv1.GetLayerRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error)
}

// baker puts what a frozen image is to hold on top of what the daemon has pushed.
// The daemon pushes such an image by its digest only: it gets its name when it is
// complete.
type baker struct {
	engine *BuildKit
	job    Job
	access upstream.Access
	to     *regclient.RegClient
	ref    ref.Ref // the image's name
}

// bakeable says, before anything is built, whether a configuration can be put on
// top of an image here.
func (b *BuildKit) bakeable(c *containerv1.ContainerConfig) error {
	if c != nil && b.o.Registries == nil {
		return &Failure{Internal, "This service's workers cannot put a configuration on top of a frozen image; leave containerConfig or freeze out", nil}
	}
	for _, l := range c.GetLayers() {
		if !isURL(l.GetLocation()) && b.o.Layers == nil {
			return &Failure{Internal, "This service's workers cannot reach layers that come with a request; give the layer's URL, or leave freeze out", nil}
		}
	}
	return nil
}

func isURL(location string) bool {
	return strings.HasPrefix(location, "http://") || strings.HasPrefix(location, "https://")
}

// bake answers the digest of the complete image.
func (b *BuildKit) bake(ctx context.Context, job Job, l *logins, built string) (string, error) {
	t := job.Target
	user, password, err := l.of(ctx, t.GetRegistry())
	if err != nil {
		return "", fmt.Errorf("asking for the login at %s: %w", t.GetRegistry(), err)
	}
	name, err := ref.New(targetName(t) + ":" + t.GetTag())
	if err != nil {
		return "", err
	}
	login := upstream.Login{Username: user, Password: password}
	k := &baker{engine: b, job: job, ref: name, access: upstream.Access{Scope: tryOf(job), Login: login}}
	o := upstream.Options{Egress: b.o.Egress}
	if strings.HasPrefix(b.o.Registries.BaseURL(t.GetRegistry()), "http://") {
		o.Plain = []string{t.GetRegistry()}
	}
	k.to = upstream.NewControl(o).For(k.access, t.GetRegistry())
	image, err := k.complete(ctx, digest.Digest(built))
	if err == nil || ctx.Err() != nil || errors.As(err, new(*Failure)) {
		return image.String(), err
	}
	if f, ok := fault.As(upstream.ControlFault(t.GetRegistry(), err)); ok {
		return "", &Failure{Push, "The configuration could not be put on top of the image: " + f.Public, err}
	}
	return "", err
}

func targetName(t *buildv1.Target) string { return t.GetRegistry() + "/" + t.GetRepository() }

// tryOf names one try of a build.
func tryOf(job Job) string { return fmt.Sprintf("build %s.%d", job.ID, job.Delivery) }

// complete pushes layers and configs, then the manifests, the named one last.
func (k *baker) complete(ctx context.Context, built digest.Digest) (digest.Digest, error) {
	repo := upstream.Repository{Host: k.job.Target.GetRegistry(), Name: k.job.Target.GetRepository()}
	root, err := k.engine.o.Registries.Manifest(ctx, repo, built.String(), k.access)
	if err != nil {
		return "", err
	}
	platform, err := oci.ParsePlatform(k.job.Recipe.GetPlatform())
	if err != nil {
		return "", err
	}
	config := k.job.Recipe.GetConfig()
	made, err := oci.Augment(ctx, k.engine.o.Registries.Source(repo, k.access), root, addition.Of(config), platform)
	if err != nil {
		return "", err
	}
	for _, l := range config.GetLayers() {
		if only := oci.ArchitectureOf(l.GetLocation()); only != "" && only != platform.Architecture {
			continue
		}
		if err := k.layer(ctx, l); err != nil {
			return "", err
		}
	}
	for _, img := range made.Images {
		if err := k.blob(ctx, describe(img.Config), strings.NewReader(string(img.Config.Bytes))); err != nil {
			return "", err
		}
		if img.Manifest.Digest == made.Root.Digest {
			continue
		}
		if err := k.manifest(ctx, k.ref.SetDigest(img.Manifest.Digest.String()), img.Manifest); err != nil {
			return "", err
		}
	}
	return made.Root.Digest, k.manifest(ctx, k.ref, made.Root)
}

func describe(doc oci.Document) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: doc.MediaType, Digest: doc.Digest, Size: int64(len(doc.Bytes))}
}

func (k *baker) manifest(ctx context.Context, name ref.Ref, doc oci.Document) error {
	m, err := manifest.New(manifest.WithRaw(doc.Bytes), manifest.WithDesc(describe(doc)))
	if err != nil {
		return err
	}
	return k.to.ManifestPut(ctx, name, m)
}

func (k *baker) blob(ctx context.Context, d descriptor.Descriptor, content io.Reader) error {
	_, err := k.to.BlobPut(ctx, k.ref, d, content)
	return err
}

// layer pushes a layer, unless it is there.
func (k *baker) layer(ctx context.Context, l *containerv1.Layer) error {
	d := descriptor.Descriptor{MediaType: oci.TypeLayer, Digest: digest.Digest(l.GetGzipDigest()), Size: l.GetGzipSize()}
	if there, err := k.to.BlobHead(ctx, k.ref, d); err == nil {
		return there.Close()
	}
	content, err := k.open(ctx, l)
	if err != nil {
		return err
	}
	defer content.Close()
	checked, err := newVerifier(content, l.GetGzipDigest(), l.GetGzipSize())
	if err != nil {
		return &Failure{Build, "A layer's digest is malformed", err}
	}
	if err := k.blob(ctx, d, checked); err != nil {
		return err
	}
	if err := checked.verify(); err != nil {
		return &Failure{Build, "A layer cannot be used: " + err.Error(), err}
	}
	return nil
}

// open begins to read a layer.
func (k *baker) open(ctx context.Context, l *containerv1.Layer) (io.ReadCloser, error) {
	if isURL(l.GetLocation()) {
		return k.engine.download(ctx, "A layer", l.GetLocation())
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := k.engine.o.Layers.GetLayer(ctx, &containerv1.GetLayerRequest{GzipDigest: l.GetGzipDigest()})
	if err != nil {
		cancel()
		return nil, err
	}
	return chunked(stream.Recv, cancel), nil
}

// Package remote is the registries that a build reads from and pushes to: images that
// others are made from, layers that come with requests, and the repository that the
// image goes to. It speaks through upstream, with the logins of one job, and keeps
// nothing.
package remote

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/regclient/regclient"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Deps are what is needed by engines that work on images as they lie in
// registries.
type Deps struct {
	// Work answers logins.
	Work buildv1.WorkServiceClient
	// Egress decides which addresses a layer may be fetched from.
	Egress *upstream.Egress
	// Registries reads images.
	Registries Registries
	// Layers answers layers that came with requests; nil where they cannot be had.
	Layers Layers
	// Mirrors are asked first for the layers of images that others are made from.
	Mirrors []upstream.Mirror
}

// Logins are those of a job.
func (d Deps) Logins(job jobs.Job) *jobs.Logins { return jobs.NewLogins(d.Work, job.Ticket) }

// Open returns the image that a job is made from, what it is with the job's
// configuration on top, and where that goes.
func (d Deps) Open(ctx context.Context, job jobs.Job) (from *Source, image oci.Image, to *Target, err error) {
	l := d.Logins(job)
	if from, err = d.Source(ctx, job, l); err != nil {
		return nil, oci.Image{}, nil, err
	}
	if image, err = from.With(ctx, job.Recipe.GetConfig()); err != nil {
		return nil, oci.Image{}, nil, err
	}
	to, err = d.Target(ctx, job, l)
	return from, image, to, err
}

// Registries asks a registry whether an image is there, and reads its documents,
// with a login. *upstream.Client is one.
type Registries interface {
	Resolve(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (digest.Digest, error)
	Manifest(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (oci.Document, error)
	Source(repo upstream.Repository, a upstream.Access) oci.Source
	Token(ctx context.Context, r upstream.TokenRequest) (token string, expires time.Time, err error)
	ReadBlob(ctx context.Context, repo upstream.Repository, d digest.Digest, a upstream.Access, from, length int64) (io.ReadCloser, error)
	BaseURL(host string) string
}

// Layers streams the bytes of layers that came with requests.
// containerv1.ContainerServiceClient is one.
type Layers interface {
	GetLayer(ctx context.Context, req *containerv1.GetLayerRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error)
}

// world is what the engines reach for one job.
type world struct {
	Deps
	logins *jobs.Logins
	try    string
}

// at is the world as a job reaches it.
func (d Deps) at(job jobs.Job, l *jobs.Logins) world { return world{d, l, job.Try()} }

// control is a client that pushes and copies, with one login.
func (d Deps) control(host string, a upstream.Access, mirrors []upstream.Mirror) *regclient.RegClient {
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

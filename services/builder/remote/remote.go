// Package remote reads from and pushes to the registries of a build: base images, layers of
// requests, and the target repository. It uses package upstream with the logins of one job,
// and stores nothing.
package remote

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/upstream"
)

// Deps are the dependencies of engines that read images from registries.
type Deps struct {
	// Work returns logins.
	Work buildv1.WorkServiceClient
	// Egress decides which addresses a layer may be fetched from.
	Egress *upstream.Egress
	// Registries reads images.
	Registries Registries
	// Layers returns the layers of requests; nil if they are not available.
	Layers Layers
	// Policy applies the operator's rules, which each job has; nil permits everything.
	Policy *enforce.Enforcer
	// Mirrors are tried first for the layers of base images.
	Mirrors []upstream.Mirror
}

// Logins returns the logins of a job.
func (d Deps) Logins(job jobs.Job) *jobs.Logins { return jobs.NewLogins(d.Work, job.Ticket) }

// Open returns the job's base image, the image with the job's configuration applied, and
// the target to push it to.
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

// Registries checks whether images exist and reads their documents, with a login.
// *upstream.Client implements it.
type Registries interface {
	Resolve(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (digest.Digest, error)
	Manifest(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (oci.Document, error)
	Referrers(ctx context.Context, repo upstream.Repository, d digest.Digest, a upstream.Access) ([]ocispec.Descriptor, error)
	Source(repo upstream.Repository, a upstream.Access) oci.Source
	Token(ctx context.Context, r upstream.TokenRequest) (token string, expires time.Time, err error)
	ReadBlob(ctx context.Context, repo upstream.Repository, d digest.Digest, a upstream.Access, from, length int64) (io.ReadCloser, error)
	StartUpload(ctx context.Context, repo upstream.Repository, a upstream.Access) (*upstream.Upload, error)
	ContinueUpload(ctx context.Context, repo upstream.Repository, a upstream.Access, location string) (*upstream.Upload, error)
	BaseURL(host string) string
}

// Layers streams the content of the layers of requests. containerv1.ContainerServiceClient
// implements it.
type Layers interface {
	GetLayer(ctx context.Context, req *containerv1.GetLayerRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error)
}

// A session holds what the engines use for one job.
type session struct {
	Deps
	logins *jobs.Logins
	try    string
}

// newSession returns the session of a job.
func (d Deps) newSession(job jobs.Job, l *jobs.Logins) session { return session{d, l, job.Try()} }

// control returns a client that pushes and copies with one login.
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

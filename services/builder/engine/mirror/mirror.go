// Package mirror is the engine that copies an image to another registry: all platforms, and the
// signatures, SBOMs and other manifests that refer to it. Digests do not change. Blobs are mounted
// or streamed between the registries; nothing is stored on disk. The upload of a large blob
// continues where another worker ended.
package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// Engine mirrors images.
type Engine struct {
	deps remote.Deps
	js   jetstream.JetStream
}

// New returns the engine. It stores the states of uploads in NATS.
func New(d remote.Deps, n *nats.Conn) (*Engine, error) {
	js, err := jetstream.New(n)
	return &Engine{d, js}, err
}

// Name returns "mirror".
func (e *Engine) Name() string { return "mirror" }

// Architectures returns "any", since nothing of the image is run.
func (e *Engine) Architectures() []string { return []string{jobs.AnyArchitecture} }

// Problem returns "", since the engine has no requirements.
func (e *Engine) Problem() string { return "" }

// Run returns immediately.
func (e *Engine) Run(context.Context) error { return nil }

// Build copies the recipe's source and returns its digest. The target gets its tag when it has
// everything else, so that a copy that fails half way has no tag.
func (e *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	logins := e.deps.Logins(job)
	src := job.Recipe.GetSource()
	from, err := e.deps.Repository(ctx, job, logins, upstream.Repository{Host: src.GetRegistry(), Name: src.GetRepository()})
	if err != nil {
		return "", err
	}
	name := src.GetRegistry() + "/" + src.GetRepository() + "@" + src.GetReference()
	out.Print("fetch", "Reading the manifests of "+name)
	image, err := readImage(ctx, from, src.GetReference())
	if err != nil {
		return "", unreadable(ctx, name, err)
	}
	out.Print("", image.summary())
	to, err := e.deps.Target(ctx, job, logins)
	if err != nil {
		return "", err
	}
	out.Print("push", "Copying to "+job.Image())
	c := &copying{from: from, to: to, uploads: uploads{e.js, job}, out: out, total: image.size()}
	if err := c.image(ctx, image); err != nil {
		if source, ok := errors.AsType[*remote.SourceError](err); ok {
			return "", unreadable(ctx, name, source.Err)
		}
		return "", to.Failed(ctx, "The image could not be copied to "+job.RepositoryName(), err)
	}
	out.Print("", c.summary())
	job.HasRead(&buildv1.Inputs{Inputs: []*buildv1.Input{from.Input(ctx, digest.Digest(src.GetReference()))}})
	return src.GetReference(), nil
}

// unreadable returns the failure of a mirror whose source cannot be read.
func unreadable(ctx context.Context, name string, err error) error {
	if f, ok := fault.As(err); ok && ctx.Err() == nil {
		return jobs.Build.Failure(fmt.Sprintf("The image %s cannot be read: %s", name, f.Public), err)
	}
	return err
}

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Target is where a build pushes to. An image gets its name when all else is
// there: nobody sees the half of one.
type Target struct {
	world
	Client *regclient.RegClient
	access upstream.Access
	repo   upstream.Repository
	Ref    ref.Ref // the image's name
}

// Target is where a job pushes to, with its login there.
func (d Deps) Target(ctx context.Context, job jobs.Job, l *jobs.Logins) (*Target, error) {
	repo := job.Repository()
	login, err := l.Push(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("asking for the login at %s: %w", repo.Host, err)
	}
	name, err := ref.New(job.Image())
	if err != nil {
		return nil, err
	}
	out := &Target{
		world: d.at(job, l), Ref: name, repo: repo, access: upstream.Access{Scope: job.Try(), Login: login},
	}
	out.Client = d.control(repo.Host, out.access, nil)
	return out, nil
}

// Failed says what an error means that the registry answered while something was
// pushed; what is a failure already, or the end of ctx, stays.
func (t *Target) Failed(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*jobs.Failure)) {
		return err
	}
	if f, ok := fault.As(upstream.ControlFault(t.repo.Host, err)); ok {
		return jobs.Push.Failure(what+": "+f.Public, err)
	}
	return err
}

// PutDocument pushes a config.
func (t *Target) PutDocument(ctx context.Context, doc oci.Document) error {
	return t.PutBlob(ctx, describe(doc), bytes.NewReader(doc.Bytes))
}

func describe(doc oci.Document) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: doc.MediaType, Digest: doc.Digest, Size: int64(len(doc.Bytes))}
}

// PutManifest pushes a manifest under a name, or under its digest.
func (t *Target) PutManifest(ctx context.Context, name ref.Ref, doc oci.Document) error {
	m, err := manifest.New(manifest.WithRaw(doc.Bytes), manifest.WithDesc(describe(doc)))
	if err != nil {
		return err
	}
	return t.Client.ManifestPut(ctx, name, m)
}

// PutBlob pushes content that has the descriptor's digest.
func (t *Target) PutBlob(ctx context.Context, d descriptor.Descriptor, content io.Reader) error {
	_, err := t.Client.BlobPut(ctx, t.Ref, d, content)
	return err
}

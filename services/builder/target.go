package builder

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

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

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
		return Push.failure(what+": "+f.Public, err)
	}
	return err
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

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Target is the repository that a build pushes to. The image's tag is pushed last, so that
// no client sees an incomplete image.
type Target struct {
	session
	Client *regclient.RegClient
	access upstream.Access
	repo   upstream.Repository
	Ref    ref.Ref // the image's name
}

// Target returns the repository that a job pushes to, with the job's login.
func (d Deps) Target(ctx context.Context, job jobs.Job, l *jobs.Logins) (*Target, error) {
	repo := job.Repository()
	login, err := l.Push(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("fetching the login at %s: %w", repo.Host, err)
	}
	name, err := ref.New(job.Image())
	if err != nil {
		return nil, err
	}
	out := &Target{
		session: d.newSession(job, l), Ref: name, repo: repo, access: upstream.Access{Scope: job.Try(), Login: login},
	}
	out.Client = d.control(repo.Host, out.access, nil)
	return out, nil
}

// Failed converts a registry's error during a push to a failure. It returns failures and
// context errors unchanged.
func (t *Target) Failed(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*jobs.Failure)) {
		return err
	}
	if f, ok := fault.As(upstream.ControlFault(t.repo.Host, err)); ok {
		return jobs.Push.Failure(what+": "+f.Public, err)
	}
	return err
}

// permanentStatus matches the text of regclient's errors for statuses that another try does not
// change.
var permanentStatus = regexp.MustCompile(`\[http 4(0[0-79]|1\d|2[0-8]|[3-9]\d)\]`)

// Retry reports whether and when another try may succeed after an error of a registry, and returns
// the error as a sentence for the user.
func (t *Target) Retry(err error) (after time.Duration, why string, ok bool) {
	if err == nil || errors.As(err, new(*jobs.Failure)) || permanentStatus.MatchString(err.Error()) {
		return 0, "", false
	}
	f, known := fault.As(upstream.ControlFault(t.repo.Host, err))
	if !known || !errors.Is(f, fault.Unavailable) && !errors.Is(f, fault.Timeout) && !errors.Is(f, fault.Exhausted) {
		return 0, "", false
	}
	return f.RetryAfter, f.Public, true
}

// Resolve returns the digest of a tag in the target's repository, or fault.NotFound.
func (t *Target) Resolve(ctx context.Context, tag string) (digest.Digest, error) {
	return t.Registries.Resolve(ctx, t.repo, tag, t.access)
}

// ReadPart opens a part of a blob, of length bytes, which must be at least 1, from the position from
// on. Its content is not verified.
func (t *Target) ReadPart(ctx context.Context, d ocispec.Descriptor, from, length int64) (io.ReadCloser, error) {
	return t.Registries.ReadBlob(ctx, t.repo, d.Digest, t.access, from, length)
}

// PutDocument pushes a config.
func (t *Target) PutDocument(ctx context.Context, doc oci.Document) error {
	return t.PutBlob(ctx, describe(doc), bytes.NewReader(doc.Bytes))
}

func describe(doc oci.Document) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: doc.MediaType, Digest: doc.Digest, Size: int64(len(doc.Bytes))}
}

// PutManifest pushes a manifest with a tag, or by its digest.
func (t *Target) PutManifest(ctx context.Context, name ref.Ref, doc oci.Document) error {
	m, err := manifest.New(manifest.WithRaw(doc.Bytes), manifest.WithDesc(describe(doc)))
	if err != nil {
		return err
	}
	return t.Client.ManifestPut(ctx, name, m)
}

// PutBlob pushes content with the descriptor's digest.
func (t *Target) PutBlob(ctx context.Context, d descriptor.Descriptor, content io.Reader) error {
	_, err := t.Client.BlobPut(ctx, t.Ref, d, content)
	return err
}

// Host returns the host of the target's registry.
func (t *Target) Host() string { return t.repo.Host }

// PutBlobOnce pushes content with the descriptor's digest, unless the repository has it.
func (t *Target) PutBlobOnce(ctx context.Context, d descriptor.Descriptor, content io.Reader) error {
	if there, err := t.Client.BlobHead(ctx, t.Ref, d); err == nil {
		return there.Close()
	}
	return t.PutBlob(ctx, d, content)
}

// PutComposition makes a blob of ranges of blobs that the repository has. The registry must be the
// embedded image store.
func (t *Target) PutComposition(ctx context.Context, d digest.Digest, c oci.Composition) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	u, err := t.Registries.StartUpload(ctx, t.repo, t.access)
	if err != nil {
		return err
	}
	if err = u.Append(ctx, bytes.NewReader(raw), int64(len(raw))); err == nil {
		err = u.CommitComposition(ctx, d)
	}
	if err != nil {
		_ = u.Cancel(ctx) // the store may have deleted it
	}
	return err
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A Repository reads a repository with the login of the build's owner.
type Repository struct {
	session
	client    *regclient.RegClient
	at        upstream.Repository
	ref       ref.Ref // without a tag
	access    upstream.Access
	documents oci.Source
}

// Repository returns a repository that the build may read.
func (d Deps) Repository(ctx context.Context, job jobs.Job, l *jobs.Logins, at upstream.Repository) (*Repository, error) {
	return d.newSession(job, l).repository(ctx, at)
}

func (w session) repository(ctx context.Context, at upstream.Repository) (*Repository, error) {
	login, err := w.logins.Read(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("fetching the login at %s: %w", at.Host, err)
	}
	access := upstream.Access{Scope: w.try + " source", Login: login}
	name, err := ref.New(at.Host + "/" + at.Name)
	if err != nil {
		return nil, err
	}
	return &Repository{session: w, ref: name, client: w.control(at.Host, access, w.Mirrors), at: at, access: access, documents: w.Registries.Source(at, access)}, nil
}

// Host returns the host of the registry.
func (r *Repository) Host() string { return r.at.Host }

// Manifest returns a manifest or an index.
func (r *Repository) Manifest(ctx context.Context, d digest.Digest) (oci.Document, error) {
	return r.documents.Manifest(ctx, d)
}

// Resolve returns the digest of a tag, or fault.NotFound.
func (r *Repository) Resolve(ctx context.Context, tag string) (digest.Digest, error) {
	return r.Registries.Resolve(ctx, r.at, tag, r.access)
}

// Referrers returns the manifests that refer to a manifest.
func (r *Repository) Referrers(ctx context.Context, d digest.Digest) ([]ocispec.Descriptor, error) {
	return r.Registries.Referrers(ctx, r.at, d, r.access)
}

// OpenVerified opens a blob of a known size, and resumes an interrupted download. Read returns an
// error instead of io.EOF if the content does not match the descriptor.
func (r *Repository) OpenVerified(ctx context.Context, of ocispec.Descriptor) (io.ReadCloser, error) {
	content := io.NopCloser(strings.NewReader(""))
	if of.Size > 0 {
		var err error
		if content, err = r.Registries.ReadBlob(ctx, r.at, of.Digest, r.access, 0, of.Size); err != nil {
			return nil, err
		}
	}
	checked, err := NewVerifier(content, of.Digest.String(), of.Size)
	if err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return &untilEnd{checked, content, "A blob of the image"}, nil
}

// Package pullthrough reads images of other registries, and keeps what it has read, so that it is
// not requested again: manifests and configs by digest, and what tags pointed at. Blobs are kept by
// the registry role, with the keys of this package. While a registry is unavailable or limits
// requests, what is known is served as stale. Who may read what is in rights.go.
package pullthrough

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A Store keeps documents; see blob.Cache. They may be lost at any time.
type Store interface {
	// Document opens a document. The caller must close it. ok is false if it is not stored.
	Document(ctx context.Context, name string) (_ io.ReadCloser, size int64, ok bool)
	// SetDocument stores a document, in place of an earlier one with the same name.
	SetDocument(name string, content []byte)
}

// Options are the options of a Reader.
type Options struct {
	Client *upstream.Client
	// Store is where documents are kept. If it is nil, nothing is kept; see Direct.
	Store Store
	// Documents is the memory budget of documents.
	Documents *upstream.Documents
	// Recheck is how long a registry's permission to read something with a login is used without
	// asking again.
	Recheck time.Duration
	// Freshness is how long the digest of a tag is used without asking again. It is shared by all
	// processes with the same Store.
	Freshness time.Duration
	// Wait is how long a registry is waited for if its answer is known; 0 is limits.StaleAfter.
	Wait    time.Duration
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// A Reader reads images of registries. It is safe for concurrent use.
type Reader struct {
	client *upstream.Client
	// store is nil if nothing is kept. The fields below are then unused.
	store     Store
	documents *upstream.Documents
	freshness time.Duration
	now       func() time.Time
	log       *slog.Logger
	metrics   metrics
	recheck   time.Duration
	wait      time.Duration
	// grants are the permissions that registries have given to logins, and when.
	grants *memo.Cache[grant, time.Time]
	// tags are the tags that were read with logins of users.
	tags *memo.Cache[loginTag, tagRecord]
	// outages are the times until which registries are not asked about what is known.
	outages *memo.Cache[place, time.Time]
	// logged are the times at which the outages of registries were logged, by host.
	logged *memo.Cache[string, time.Time]
	// asking shares the running requests for the permission of a login, and fetching those for
	// documents.
	asking   memo.Flight[asked, struct{}]
	fetching memo.Flight[grant, []byte]
}

// Direct returns a Reader that keeps nothing and has no metrics.
func Direct(c *upstream.Client) *Reader { return &Reader{client: c} }

// New returns a Reader that keeps what it has read in Options.Store.
func New(o Options) *Reader {
	return &Reader{
		client: o.Client, store: o.Store, documents: o.Documents, freshness: o.Freshness, recheck: o.Recheck, wait: cmp.Or(o.Wait, limits.StaleAfter), now: o.Now, log: o.Log,
		metrics: newMetrics(o.Metrics),
		grants:  memo.NewCache(memo.Options[grant, time.Time]{Most: limits.ReadGrants}),
		tags:    memo.NewCache(memo.Options[loginTag, tagRecord]{Most: limits.TagAnswers}),
		outages: memo.NewCache(memo.Options[place, time.Time]{Most: limits.Outages}),
		logged:  memo.NewCache(memo.Options[string, time.Time]{Most: limits.Outages}),
	}
}

// Keeps reports whether the Reader keeps what it has read.
func (r *Reader) Keeps() bool { return r.store != nil }

// A Document is a manifest or an index.
type Document struct {
	oci.Document
	// Stale reports whether the registry could not be asked whether it is current, or whether the
	// caller may still read it.
	Stale bool
}

// A Tag is what a tag points at.
type Tag struct {
	Digest digest.Digest
	Stale  bool // see Document
}

// Manifest returns a manifest or index by tag or digest.
func (r *Reader) Manifest(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (Document, error) {
	switch {
	case r.store == nil:
		doc, err := r.client.Manifest(ctx, repo, ref, a)
		return Document{Document: doc}, err
	case digest.Digest(ref).Validate() == nil:
		return r.manifest(ctx, item{kindManifest, repo, digest.Digest(ref)}, a)
	}
	return r.tagged(ctx, repo, ref, a)
}

// manifest returns a manifest by digest.
func (r *Reader) manifest(ctx context.Context, it item, a upstream.Access) (Document, error) {
	content, stale, err := r.keep(ctx, it, a, func(ctx context.Context) ([]byte, error) {
		doc, err := r.client.Manifest(ctx, it.repo, it.digest.String(), a)
		return encode(doc), err
	})
	if err != nil {
		return Document{}, err
	}
	doc, err := decode(content, it.digest)
	return Document{doc, stale}, err
}

// Blob returns a small blob: an image config, or a blob of at most limits.KeptBlob bytes.
func (r *Reader) Blob(ctx context.Context, repo upstream.Repository, d ocispec.Descriptor, a upstream.Access) (content []byte, stale bool, err error) {
	if r.store == nil {
		content, err = r.client.Config(ctx, repo, d, a)
		return content, false, err
	}
	return r.keep(ctx, item{kindBlob, repo, d.Digest}, a, func(ctx context.Context) ([]byte, error) {
		content, err := r.client.Config(ctx, repo, d, a)
		if err == nil && int64(len(content)) != d.Size {
			err = fault.Invalid.Newf("The image states %d bytes for its blob %s, which has %d", d.Size, d.Digest, len(content))
		}
		return content, err
	})
}

// Open requests a blob, or a part of it, from its registry; see upstream.Client.Blob.
func (r *Reader) Open(ctx context.Context, method string, repo upstream.Repository, d digest.Digest, a upstream.Access, part string) (*upstream.Blob, error) {
	b, err := r.client.Blob(ctx, method, repo, d, a, part)
	if r.store == nil {
		return b, err
	}
	r.observe(ctx, repo, a, err, false)
	if err != nil {
		return nil, unavailable(err)
	}
	r.allowed(item{kindBlob, repo, d}, a)
	return b, nil
}

// Source returns a source of documents in one repository, for oci.Augment.
func (r *Reader) Source(repo upstream.Repository, a upstream.Access) oci.Source {
	return source{r, repo, a}
}

type source struct {
	reader *Reader
	repo   upstream.Repository
	access upstream.Access
}

func (s source) Manifest(ctx context.Context, d digest.Digest) (oci.Document, error) {
	doc, err := s.reader.Manifest(ctx, s.repo, d.String(), s.access)
	return doc.Document, err
}

func (s source) Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	content, _, err := s.reader.Blob(ctx, s.repo, d, s.access)
	return content, err
}

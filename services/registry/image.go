package registry

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2/stats"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/mount/environment"
)

// An image represents one upstream root with the changes of one token: all documents and
// blobs that a client may request by digest, both generated and unchanged ones.
type image struct {
	key imageKey
	// root is served in place of the upstream root.
	root oci.Document
	// generated holds generated manifests and configs, by digest.
	generated map[digest.Digest]oci.Document
	// entries are the descriptors of an index, as served.
	entries []ocispec.Descriptor
	// augmented reports whether anything was changed.
	augmented bool
	// sources holds the digests of the upstream manifests of generated ones.
	sources map[digest.Digest]digest.Digest

	mu sync.Mutex
	// blobs holds sizes by digest, from the manifests in parsed.
	blobs  map[digest.Digest]int64
	parsed map[digest.Digest]bool
	// others holds manifests that belong to the image and are not among its entries.
	others map[digest.Digest]bool
	// environments are the artifacts with which environments of the image are mounted.
	environments []digest.Digest
	// attestations holds the signed statements about manifests of the image, and attached their
	// documents, by digest.
	attestations map[digest.Digest]attestations
	attached     map[digest.Digest]attachment
	// walked is how far blobs and others are complete.
	walked depth
}

// images fetches and augments images. It caches them in memory per access rights, so that
// no client sees content that only another client may read.
type images struct {
	client *upstream.Client
	// reads reads images of other registries, and direct those that builds have pushed.
	reads, direct *pullthrough.Reader
	control       *upstream.Control
	keychain      *caller.Keychain

	docs      *memo.Memo[docKey, oci.Document]
	generated *memo.Memo[imageKey, *image]
	docHits   *stats.Counter
	madeHits  *stats.Counter
	configs   memo.Flight[docKey, []byte]
	tags      *tagCache
	walking   memo.Flight[walking, struct{}]
	// containers signs statements about images.
	containers containerv1.ContainerServiceClient
	attesting  memo.Flight[attesting, *containerv1.ListAttestationsResponse]
	policy     rules
	now        func() time.Time
	log        *slog.Logger
}

type docKey struct {
	access upstream.Access
	// epoch is that of the access; see pullthrough.Reader.Epoch.
	epoch  int64
	repo   upstream.Repository
	digest digest.Digest
}

type imageKey struct {
	docKey       // the upstream root
	augmentation string
}

func newImages(d Deps) *images {
	half := uint64(d.ImageCache / 2)
	docHits, madeHits := stats.NewCounter(), stats.NewCounter()
	return &images{
		docHits: docHits, madeHits: madeHits, containers: d.Containers, policy: rules{d.Policy}, now: d.Now, log: d.Log,
		client: d.Upstream, reads: cmp.Or(d.Reads, pullthrough.Direct(d.Upstream)), direct: pullthrough.Direct(d.Upstream), control: d.Control, keychain: d.Keychain, tags: newTagCache(d),
		docs: memo.New(memo.Options[docKey, oci.Document]{
			Weight: half,
			Hits:   docHits,
			Weigh:  func(_ docKey, doc oci.Document) uint32 { return uint32(len(doc.Bytes)) + 512 },
		}),
		generated: memo.New(memo.Options[imageKey, *image]{
			Weight: half,
			Hits:   madeHits,
			Weigh:  func(_ imageKey, img *image) uint32 { return img.weight() },
		}),
	}
}

func (img *image) weight() uint32 {
	img.mu.Lock()
	defer img.mu.Unlock()
	n := 2048 + len(img.root.Bytes) + 200*(len(img.entries)+len(img.blobs)+len(img.others))
	for _, d := range img.generated {
		n += len(d.Bytes)
	}
	for _, a := range img.attached {
		n += 256 + len(a.content)
	}
	return uint32(n)
}

// A reader fetches for one token. It is a Source for oci.Augment.
type reader struct {
	images *images
	from   *pullthrough.Reader
	access upstream.Access
	epoch  int64
	repo   upstream.Repository
}

func (s *images) reader(ctx context.Context, tok *resolvedToken) (reader, error) {
	return s.readerOf(ctx, origin{repo: tok.repo, identity: tok.identity, built: tok.build != ""})
}

// readerOf returns a reader of one repository, with the login for it.
func (s *images) readerOf(ctx context.Context, from origin) (reader, error) {
	find, reads := s.keychain.Access, s.reads
	if from.built {
		find, reads = s.keychain.BuildAccess, s.direct
	}
	a, err := find(ctx, from.identity, from.repo.Host, from.repo.Name)
	return reader{s, reads, a, reads.Epoch(a), from.repo}, err
}

func (r reader) docKey(d digest.Digest) docKey { return docKey{r.access, r.epoch, r.repo, d} }

// Manifest returns a manifest or index by digest.
func (r reader) Manifest(ctx context.Context, d digest.Digest) (oci.Document, error) {
	return r.images.docs.Get(ctx, r.docKey(d), func(ctx context.Context) (oci.Document, error) {
		doc, err := r.from.Manifest(ctx, r.repo, d.String(), r.access)
		return doc.Document, err
	})
}

// Config returns an image config.
func (r reader) Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	return r.images.configs.Do(ctx, r.docKey(d.Digest), func(ctx context.Context) ([]byte, error) {
		content, _, err := r.from.Blob(ctx, r.repo, d, r.access)
		return content, err
	})
}

// resolve returns the digest that the token's source points at now. A digest points at
// itself.
func (r reader) resolve(ctx context.Context, tok *resolvedToken) (pullthrough.Tag, error) {
	if d := digest.Digest(tok.source); d.Validate() == nil {
		return pullthrough.Tag{Digest: d}, nil
	}
	key := tagKey{r.access, r.repo, tok.source}
	return r.images.tags.lookup(ctx, key, r.from.Keeps(), func(ctx context.Context) (pullthrough.Tag, error) {
		for _, d := range tok.allRoots() {
			if r.images.docs.Has(r.docKey(d)) {
				return r.from.Resolve(ctx, r.repo, tok.source, r.access)
			}
		}
		// Nothing is cached yet, so one request fetches both the tag and its manifest.
		doc, err := r.from.Manifest(ctx, r.repo, tok.source, r.access)
		if err == nil {
			r.images.docs.Set(r.docKey(doc.Digest), doc.Document)
		}
		return pullthrough.Tag{Digest: doc.Digest, Stale: doc.Stale}, err
	})
}

func (r reader) key(tok *resolvedToken, root digest.Digest) imageKey {
	return imageKey{r.docKey(root), tok.augmentation}
}

// image returns the image that is served for an upstream root. It returns fault.Denied for one without
// a signature that policy_signatures requires.
func (r reader) image(ctx context.Context, tok *resolvedToken, root digest.Digest) (*image, error) {
	if err := r.checkSigned(ctx, tok, root); err != nil {
		return nil, err
	}
	return r.images.generated.Get(ctx, r.key(tok, root), func(ctx context.Context) (*image, error) { return r.build(ctx, tok, root) })
}

func (r reader) build(ctx context.Context, tok *resolvedToken, root digest.Digest) (*image, error) {
	ctx, done := r.images.client.Hold(ctx)
	defer done()
	doc, err := r.Manifest(ctx, root)
	if err != nil {
		return nil, err
	}
	img := &image{key: r.key(tok, root), root: doc, generated: map[digest.Digest]oci.Document{}, others: map[digest.Digest]bool{},
		blobs: map[digest.Digest]int64{}, parsed: map[digest.Digest]bool{}}
	if !tok.add.IsZero() {
		out, err := oci.Augment(ctx, r, doc, tok.add, tok.platforms...)
		if err != nil {
			return nil, err
		}
		img.root, img.augmented = out.Root, true
		img.generated[out.Root.Digest] = out.Root
		img.sources = map[digest.Digest]digest.Digest{}
		for _, i := range out.Images {
			img.sources[i.Manifest.Digest] = i.Source
			img.generated[i.Manifest.Digest], img.generated[i.Config.Digest] = i.Manifest, i.Config
			if err := img.addBlobs(i.Manifest); err != nil {
				return nil, err
			}
		}
	}
	if oci.IsIndex(img.root.MediaType) {
		x, err := oci.ParseIndex(img.root)
		img.entries = x.Manifests
		return img, err
	}
	if !img.augmented {
		return img, img.addBlobs(img.root)
	}
	return img, nil
}

// addBlobs records the blobs that a manifest refers to.
func (img *image) addBlobs(doc oci.Document) error {
	img.mu.Lock()
	defer img.mu.Unlock()
	if img.parsed[doc.Digest] {
		return nil
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return err
	}
	if len(img.blobs)+len(m.Layers) >= limits.ImageBlobs {
		return fault.Invalid.Newf("The image leads to more than %d blobs", limits.ImageBlobs)
	}
	img.parsed[doc.Digest] = true
	for _, d := range append(m.Layers, m.Config) {
		img.blobs[d.Digest] = d.Size
	}
	return nil
}

// addReferrers records manifests that refer to a manifest of the image.
func (img *image) addReferrers(list []descriptor.Descriptor) {
	digests := make([]digest.Digest, len(list))
	for i, d := range list {
		digests[i] = d.Digest
	}
	img.addManifests(digests)
	img.mu.Lock()
	defer img.mu.Unlock()
	for _, d := range list {
		if d.ArtifactType == environment.Type && len(img.environments) < limits.AttestedManifests && !slices.Contains(img.environments, d.Digest) {
			img.environments = append(img.environments, d.Digest)
		}
	}
}

// addManifests records manifests that belong to the image.
func (img *image) addManifests(list []digest.Digest) {
	img.mu.Lock()
	defer img.mu.Unlock()
	for _, d := range list {
		if len(img.others) < limits.ImageBlobs {
			img.others[d] = true
		}
	}
}

// leadsTo reports whether a manifest is the root, one of its entries, or was found behind
// one of them.
func (img *image) leadsTo(d digest.Digest) bool {
	if a, ok := img.attachment(d); ok && a.isManifest() {
		return true
	}
	if d == img.root.Digest || slices.ContainsFunc(img.entries, func(e ocispec.Descriptor) bool { return e.Digest == d }) {
		return true
	}
	img.mu.Lock()
	defer img.mu.Unlock()
	return img.others[d]
}

// blob returns the size of a blob, if it is known to belong to the image.
func (img *image) blob(d digest.Digest) (int64, bool) {
	img.mu.Lock()
	defer img.mu.Unlock()
	if a, ok := img.attached[d]; ok && !a.isManifest() {
		return int64(len(a.content)), true
	}
	size, ok := img.blobs[d]
	return size, ok
}

// document returns a manifest that belongs to the image.
func (r reader) document(ctx context.Context, img *image, d digest.Digest) (oci.Document, error) {
	if d == img.root.Digest {
		return img.root, nil
	}
	if doc, ok := img.generated[d]; ok {
		return doc, nil
	}
	if a, ok := img.attachment(d); ok {
		return oci.NewDocument(a.mediaType, a.content), nil
	}
	doc, err := r.Manifest(ctx, d)
	if err == nil && oci.IsManifest(doc.MediaType) {
		err = img.addBlobs(doc)
	}
	return doc, err
}

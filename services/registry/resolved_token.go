package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2/stats"
	"github.com/nats-io/nats.go"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A resolvedToken is the plan that a token grants access to, prepared for serving.
type resolvedToken struct {
	token string
	// name and ref are the image name and reference that this service issued.
	name, ref string
	repo      upstream.Repository
	// source is the tag or digest at the upstream registry.
	source    string
	platforms []ocispec.Platform
	add       oci.Augmentation
	// layers holds where added layers are fetched from, by digest.
	layers   map[digest.Digest]addedLayer
	identity caller.ID
	// owner is the caller that pulls are counted for; nil for an anonymous one.
	owner   *platformv1.Identity
	expires time.Time
	// build is the id of the build that creates the image, or "".
	build string
	// builds are the ids of that build and of those that created the images of added layers.
	builds []string
	// built reports whether the build is known to have succeeded.
	built atomic.Bool
	// augmentation identifies the augmentation: equal keys produce equal bytes.
	augmentation string
	// scanned reports whether images may only be pulled after their scan. verdicts has the results.
	scanned  bool
	verdicts verdicts

	// refused is the refusal of the image by a rule of the operator; nil for none.
	refused error

	mu sync.Mutex
	// permitted holds the upstream digests whose signature was verified, or is not required.
	permitted map[digest.Digest]bool
	// roots are the upstream digests that source has resolved to, newest first.
	roots []digest.Digest
}

// An addedLayer is a layer that the request added.
type addedLayer struct {
	size int64
	// url is where clients fetch the layer, or "" if this service serves it.
	url string
	// from is the repository of an included image's layer, and nil for other layers.
	from *origin
}

// An origin is a repository and the login to read it with.
type origin struct {
	repo     upstream.Repository
	identity caller.ID
	// built reports whether a build has pushed the image there.
	built bool
}

func newOrigin(from *containerv1.LayerOrigin) *origin {
	if from == nil {
		return nil
	}
	return &origin{
		repo:     upstream.Repository{Host: from.GetRegistry(), Name: from.GetRepository()},
		identity: caller.Of(from.GetIdentity()), built: from.GetBuildId() != "",
	}
}

// allRoots returns the digests that the source has resolved to, newest first.
func (tok *resolvedToken) allRoots() []digest.Digest {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	return slices.Clone(tok.roots)
}

// hasRoot reports whether d is one of the digests that the source has resolved to.
func (tok *resolvedToken) hasRoot(d digest.Digest) bool {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	return slices.Contains(tok.roots, d)
}

// addRoots adds digests in front.
func (tok *resolvedToken) addRoots(roots ...digest.Digest) {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	for _, d := range slices.Backward(roots) {
		if !slices.Contains(tok.roots, d) {
			tok.roots = append([]digest.Digest{d}, tok.roots...)
		}
	}
}

const (
	// planTTL is how long a plan is cached. A revocation whose message was missed takes
	// effect within this time.
	planTTL = time.Minute
	// unknownTTL is how long an unknown token stays cached as unknown.
	unknownTTL = 5 * time.Second
	// subjectRevoked carries the keys of tokens that the container service revokes.
	subjectRevoked = "container.revoked"
)

// tokens caches the plans of tokens until they are revoked.
type tokens struct {
	containers containerv1.ContainerServiceClient
	now        func() time.Time
	// known holds plans by token key.
	known *memo.Cache[string, *resolvedToken]
	hits  *stats.Counter
	// refused holds unknown and revoked tokens by key, each with its own lifetime.
	refused *memo.Cache[string, time.Duration]
	flight  memo.Flight[string, *resolvedToken]
	policy  rules
	sub     *nats.Subscription
}

func newTokens(d Deps) (*tokens, error) {
	t := cachesOnly(d.Containers)
	t.policy = rules{d.Policy}
	t.now = d.Now
	var err error
	t.sub, err = d.Bus.Subscribe(subjectRevoked, func(m *nats.Msg) { t.revoke(string(m.Data)) })
	if err != nil {
		return nil, fmt.Errorf("listening for revocations: %w", err)
	}
	return t, nil
}

// cachesOnly returns tokens without a subscription to revocations.
func cachesOnly(c containerv1.ContainerServiceClient) *tokens {
	hits := stats.NewCounter()
	return &tokens{
		containers: c,
		hits:       hits,
		now:        time.Now,
		known: memo.NewCache(memo.Options[string, *resolvedToken]{
			Most: 50_000,
			Age:  planTTL,
			Hits: hits,
		}),
		refused: memo.NewCache(memo.Options[string, time.Duration]{
			Most:  100_000,
			AgeOf: func(d time.Duration) time.Duration { return d },
		}),
	}
}

func (t *tokens) close() error {
	t.forget()
	return t.sub.Unsubscribe()
}

// forget stops the caches.
func (t *tokens) forget() {
	t.known.Stop()
	t.refused.Stop()
}

// keyOf returns the cache key of a token: its SHA-256 in hex, as revocation messages have
// it.
func keyOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// revoke rejects a token, by key, for longer than a pending response may take to arrive. A kept image, whose id
// is sent instead of a key, is looked up again, since the response has the reason of its deletion.
func (t *tokens) revoke(key string) {
	if oci.IsKeptID(key) {
		t.known.Delete(keyOf(key))
		return
	}
	t.refused.Set(key, 2*planTTL)
	t.known.Delete(key)
}

// get returns a token's plan, or NAME_UNKNOWN.
func (t *tokens) get(ctx context.Context, token string) (*resolvedToken, error) {
	key := keyOf(token)
	if known, ok := t.known.Get(key); ok {
		if !t.now().Before(known.expires) {
			return nil, unknownName(nil)
		}
		return known, nil
	}
	if _, ok := t.refused.Get(key); ok {
		return nil, unknownName(nil)
	}
	return t.flight.Do(ctx, token, func(ctx context.Context) (*resolvedToken, error) { return t.fetch(ctx, token, false) })
}

// refresh reads the plan again if a client requests a digest that is not cached. Another
// replica may have served the first part of the pull.
func (t *tokens) refresh(ctx context.Context, old *resolvedToken) error {
	fresh, err := t.flight.Do(ctx, "fresh "+old.token, func(ctx context.Context) (*resolvedToken, error) { return t.fetch(ctx, old.token, true) })
	if err != nil {
		return err
	}
	old.addRoots(fresh.allRoots()...)
	return nil
}

func (t *tokens) fetch(ctx context.Context, token string, fresh bool) (*resolvedToken, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	key := keyOf(token)
	resp, err := t.containers.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: token, Fresh: fresh})
	if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
		t.known.Delete(key)
		if oci.IsKeptID(token) { // it may have been deleted, which each response says
			return nil, coded(fault.NotFound.New(e.Public, err), "NAME_UNKNOWN")
		}
		t.refused.Set(key, unknownTTL)
		return nil, unknownName(err)
	}
	if err != nil {
		return nil, fmt.Errorf("getting the plan of a token: %w", err)
	}
	if p := resp.GetPlan(); p.GetFrozen() {
		src := p.GetSource()
		scheme := ""
		if p.GetFormat() == "sif" {
			scheme = "oras://"
		}
		return nil, coded(fault.NotFound.Newf("This image has a permanent name; pull %s%s/%s%s",
			scheme, src.GetRegistry(), src.GetRepository(), oci.Suffix(src.GetReference())), "NAME_UNKNOWN")
	}
	out, err := newResolvedToken(resp.GetPlan())
	if err != nil {
		return nil, err
	}
	if !fresh {
		out.refused = t.policy.check(ctx, resp.GetPlan())
	}
	if _, revoked := t.refused.Get(key); revoked {
		return nil, unknownName(nil)
	}
	if !fresh {
		t.known.Set(key, out)
	}
	return out, nil
}

func newResolvedToken(p *containerv1.Plan) (*resolvedToken, error) {
	platforms, err := oci.ParsePlatforms(p.GetPlatform())
	if err != nil {
		return nil, fmt.Errorf("reading the plan of a token: %w", err)
	}
	tok := &resolvedToken{
		token: p.GetToken(), name: p.GetName(), ref: p.GetReference(),
		repo:      upstream.Repository{Host: p.GetSource().GetRegistry(), Name: p.GetSource().GetRepository()},
		source:    p.GetSource().GetReference(),
		platforms: platforms,
		identity:  caller.Of(p.GetIdentity()),
		owner:     p.GetIdentity(),
		expires:   p.GetExpiration().AsTime(),
		layers:    map[digest.Digest]addedLayer{},
		build:     p.GetBuildId(),
		scanned:   p.GetScanRequired(),
	}
	tok.built.Store(p.GetBuilt())
	if tok.build != "" {
		tok.builds = append(tok.builds, tok.build)
	}
	c := p.GetConfig()
	tok.add = oci.NewAugmentation(c)
	for _, l := range c.GetLayers() {
		added := addedLayer{size: l.GetGzipSize(), from: newOrigin(l.GetIncludedFrom())}
		if !strings.HasPrefix(l.GetLocation(), "data:") {
			added.url = l.GetLocation()
		}
		tok.layers[digest.Digest(l.GetGzipDigest())] = added
		if id := l.GetIncludedFrom().GetBuildId(); id != "" && !slices.Contains(tok.builds, id) {
			tok.builds = append(tok.builds, id)
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return nil, err
	}
	// Signed statements about equal images of different content differ.
	content, _, _ := strings.Cut(tok.build, "_")
	tok.augmentation = fmt.Sprintf("%s %x %s", oci.Platforms(platforms), sha256.Sum256(raw), content)
	for _, d := range p.GetDigests() {
		tok.roots = append(tok.roots, digest.Digest(d))
	}
	return tok, nil
}

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

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/nats-io/nats.go"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// resolvedToken is what a token allows: its plan, in the form in which it is served.
type resolvedToken struct {
	token string
	// name and ref are the image in the name that was answered.
	name, ref string
	repo      upstream.Repository
	// source is the tag or digest at the upstream registry.
	source    string
	platforms []ocispec.Platform
	add       oci.Addition
	// layers tells where added layers come from, by digest.
	layers map[digest.Digest]addedLayer
	who    caller.ID
	// org is the organisation that pulls are counted for; "" for none.
	org     string
	expires time.Time
	// build makes the image; "" for one that is there.
	build string
	// built says that the build is known to have made it.
	built atomic.Bool
	// change names platforms and addition: the same text, the same augmentation.
	change string

	mu sync.Mutex
	// roots are the upstream digests that source has resolved to, newest first.
	roots []digest.Digest
}

// addedLayer is a layer that a request put on top.
type addedLayer struct {
	size int64
	// url is where clients get it; "" when it is served from here.
	url string
	// from is where the layer of an included image lies; nil for any other.
	from *origin
}

// origin is a repository, and who reads it.
type origin struct {
	repo upstream.Repository
	who  caller.ID
	// built says that a build has pushed the image there.
	built bool
}

func newOrigin(from *containerv1.LayerOrigin) *origin {
	if from == nil {
		return nil
	}
	return &origin{
		repo: upstream.Repository{Host: from.GetRegistry(), Name: from.GetRepository()},
		who:  caller.Of(from.GetIdentity()), built: from.GetBuildId() != "",
	}
}

// seen lists the digests that the source has resolved to, newest first.
func (tok *resolvedToken) seen() []digest.Digest {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	return slices.Clone(tok.roots)
}

// sees says whether d is among them.
func (tok *resolvedToken) sees(d digest.Digest) bool {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	return slices.Contains(tok.roots, d)
}

// saw adds digests in front.
func (tok *resolvedToken) saw(roots ...digest.Digest) {
	tok.mu.Lock()
	defer tok.mu.Unlock()
	for _, d := range slices.Backward(roots) {
		if !slices.Contains(tok.roots, d) {
			tok.roots = append([]digest.Digest{d}, tok.roots...)
		}
	}
}

const (
	// remembered is how long a plan is believed without asking: a revocation whose
	// message was missed takes effect after this time at the latest.
	remembered = time.Minute
	// ignored is how long an unknown token is not asked about again.
	ignored = 5 * time.Second
	// subjectRevoked carries the keys of tokens that the container room revokes.
	subjectRevoked = "container.revoked"
)

// tokens knows what tokens allow, and forgets it when they are revoked.
type tokens struct {
	containers containerv1.ContainerServiceClient
	now        func() time.Time
	// known and refused are by key.
	known *otter.Cache[string, *resolvedToken]
	hits  *stats.Counter
	// refused holds unknown and revoked tokens, each for its own time.
	refused *otter.Cache[string, time.Duration]
	flight  memo.Flight[string, *resolvedToken]
	sub     *nats.Subscription
}

func newTokens(d Deps) (*tokens, error) {
	t := cachesOnly(d.Containers)
	t.now = d.Now
	var err error
	t.sub, err = d.Bus.Subscribe(subjectRevoked, func(m *nats.Msg) { t.revoke(string(m.Data)) })
	if err != nil {
		return nil, fmt.Errorf("listening for revocations: %w", err)
	}
	return t, nil
}

// cachesOnly are tokens that learn of no revocation.
func cachesOnly(c containerv1.ContainerServiceClient) *tokens {
	hits := stats.NewCounter()
	return &tokens{
		containers: c,
		hits:       hits,
		now:        time.Now,
		known: otter.Must(&otter.Options[string, *resolvedToken]{
			MaximumSize:      50_000,
			ExpiryCalculator: otter.ExpiryWriting[string, *resolvedToken](remembered),
			StatsRecorder:    hits,
		}),
		refused: otter.Must(&otter.Options[string, time.Duration]{
			MaximumSize:      100_000,
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, time.Duration]) time.Duration { return e.Value }),
		}),
	}
}

func (t *tokens) close() error {
	t.forget()
	return t.sub.Unsubscribe()
}

// forget ends the caches.
func (t *tokens) forget() {
	t.known.StopAllGoroutines()
	t.refused.StopAllGoroutines()
}

// keyOf is what a token is kept under: its SHA-256, in hex, as revocations name it.
func keyOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// revoke forgets a token, by its key, for longer than an answer that is on its way
// takes.
func (t *tokens) revoke(key string) {
	t.refused.Set(key, 2*remembered)
	t.known.Invalidate(key)
}

// get returns what a token allows; NAME_UNKNOWN when it is unknown.
func (t *tokens) get(ctx context.Context, token string) (*resolvedToken, error) {
	key := keyOf(token)
	if known, ok := t.known.GetIfPresent(key); ok {
		if !t.now().Before(known.expires) {
			return nil, unknownName(nil)
		}
		return known, nil
	}
	if _, ok := t.refused.GetIfPresent(key); ok {
		return nil, unknownName(nil)
	}
	return t.flight.Do(ctx, token, func(ctx context.Context) (*resolvedToken, error) { return t.ask(ctx, token, false) })
}

// renew asks for the durable record, when a client wants what memory does not
// know. Another replica may have served the first part of its pull.
func (t *tokens) renew(ctx context.Context, old *resolvedToken) error {
	fresh, err := t.flight.Do(ctx, "fresh "+old.token, func(ctx context.Context) (*resolvedToken, error) { return t.ask(ctx, old.token, true) })
	if err != nil {
		return err
	}
	old.saw(fresh.seen()...)
	return nil
}

func (t *tokens) ask(ctx context.Context, token string, fresh bool) (*resolvedToken, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	key := keyOf(token)
	resp, err := t.containers.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: token, Fresh: fresh})
	if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
		t.refused.Set(key, ignored)
		t.known.Invalidate(key)
		return nil, unknownName(err)
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the plan of a token: %w", err)
	}
	if p := resp.GetPlan(); p.GetFrozen() {
		src := p.GetSource()
		scheme := ""
		if p.GetFormat() == "sif" {
			scheme = "oras://"
		}
		return nil, coded(fault.NotFound.Newf("This image is frozen; pull %s%s/%s:%s",
			scheme, src.GetRegistry(), src.GetRepository(), src.GetReference()), "NAME_UNKNOWN")
	}
	out, err := newResolvedToken(resp.GetPlan())
	if err != nil {
		return nil, err
	}
	if _, revoked := t.refused.GetIfPresent(key); revoked {
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
		who:       caller.Of(p.GetIdentity()),
		org:       caller.Organisation(p.GetIdentity()),
		expires:   p.GetExpiration().AsTime(),
		layers:    map[digest.Digest]addedLayer{},
		build:     p.GetBuildId(),
	}
	tok.built.Store(p.GetBuilt())
	c := p.GetConfig()
	tok.add = oci.AdditionOf(c)
	for _, l := range c.GetLayers() {
		added := addedLayer{size: l.GetGzipSize(), from: newOrigin(l.GetIncludedFrom())}
		if !strings.HasPrefix(l.GetLocation(), "data:") {
			added.url = l.GetLocation()
		}
		tok.layers[digest.Digest(l.GetGzipDigest())] = added
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return nil, err
	}
	tok.change = fmt.Sprintf("%s %x", oci.Platforms(platforms), sha256.Sum256(raw))
	for _, d := range p.GetDigests() {
		tok.roots = append(tok.roots, digest.Digest(d))
	}
	return tok, nil
}

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

// grant is what a token allows: its plan, in the form in which it is served.
type grant struct {
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
}

// seen lists the digests that the source has resolved to, newest first.
func (g *grant) seen() []digest.Digest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.roots)
}

// sees says whether d is among them.
func (g *grant) sees(d digest.Digest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.roots, d)
}

// saw adds digests in front.
func (g *grant) saw(roots ...digest.Digest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range slices.Backward(roots) {
		if !slices.Contains(g.roots, d) {
			g.roots = append([]digest.Digest{d}, g.roots...)
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

// grants answers what tokens allow, and forgets them when they are revoked.
type grants struct {
	containers containerv1.ContainerServiceClient
	now        func() time.Time
	// known and refused are by key.
	known *otter.Cache[string, *grant]
	hits  *stats.Counter
	// refused holds unknown and revoked tokens, each for its own time.
	refused *otter.Cache[string, time.Duration]
	flight  memo.Flight[string, *grant]
	sub     *nats.Subscription
}

func newGrants(d Deps) (*grants, error) {
	g := cachesOnly(d.Containers)
	g.now = d.Now
	var err error
	g.sub, err = d.Bus.Subscribe(subjectRevoked, func(m *nats.Msg) { g.revoke(string(m.Data)) })
	if err != nil {
		return nil, fmt.Errorf("listening for revocations: %w", err)
	}
	return g, nil
}

// cachesOnly are grants that hear of no revocation.
func cachesOnly(c containerv1.ContainerServiceClient) *grants {
	hits := stats.NewCounter()
	return &grants{
		containers: c,
		hits:       hits,
		now:        time.Now,
		known: otter.Must(&otter.Options[string, *grant]{
			MaximumSize:      50_000,
			ExpiryCalculator: otter.ExpiryWriting[string, *grant](remembered),
			StatsRecorder:    hits,
		}),
		refused: otter.Must(&otter.Options[string, time.Duration]{
			MaximumSize:      100_000,
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, time.Duration]) time.Duration { return e.Value }),
		}),
	}
}

func (g *grants) close() error {
	g.forget()
	return g.sub.Unsubscribe()
}

// forget ends the caches.
func (g *grants) forget() {
	g.known.StopAllGoroutines()
	g.refused.StopAllGoroutines()
}

// keyOf is what a token is kept under: its SHA-256, in hex, as revocations name it.
func keyOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// revoke forgets a token, by its key, for longer than an answer that is on its way
// takes.
func (g *grants) revoke(key string) {
	g.refused.Set(key, 2*remembered)
	g.known.Invalidate(key)
}

// get answers the grant of a token; NAME_UNKNOWN when there is none.
func (g *grants) get(ctx context.Context, token string) (*grant, error) {
	key := keyOf(token)
	if known, ok := g.known.GetIfPresent(key); ok {
		if !g.now().Before(known.expires) {
			return nil, unknownName(nil)
		}
		return known, nil
	}
	if _, ok := g.refused.GetIfPresent(key); ok {
		return nil, unknownName(nil)
	}
	return g.flight.Do(ctx, token, func(ctx context.Context) (*grant, error) { return g.ask(ctx, token, false) })
}

// renew asks for the durable record, when a client wants what memory does not
// know. Another replica may have served the first part of its pull.
func (g *grants) renew(ctx context.Context, old *grant) error {
	fresh, err := g.flight.Do(ctx, "fresh "+old.token, func(ctx context.Context) (*grant, error) { return g.ask(ctx, old.token, true) })
	if err != nil {
		return err
	}
	old.saw(fresh.seen()...)
	return nil
}

func (g *grants) ask(ctx context.Context, token string, fresh bool) (*grant, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	key := keyOf(token)
	resp, err := g.containers.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: token, Fresh: fresh})
	if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
		g.refused.Set(key, ignored)
		g.known.Invalidate(key)
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
	out, err := newGrant(resp.GetPlan())
	if err != nil {
		return nil, err
	}
	if _, revoked := g.refused.GetIfPresent(key); revoked {
		return nil, unknownName(nil)
	}
	if !fresh {
		g.known.Set(key, out)
	}
	return out, nil
}

func newGrant(p *containerv1.Plan) (*grant, error) {
	platforms, err := oci.ParsePlatforms(p.GetPlatform())
	if err != nil {
		return nil, fmt.Errorf("reading the plan of a token: %w", err)
	}
	g := &grant{
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
	g.built.Store(p.GetBuilt())
	c := p.GetConfig()
	g.add = oci.AdditionOf(c)
	for _, l := range c.GetLayers() {
		added := addedLayer{size: l.GetGzipSize()}
		if !strings.HasPrefix(l.GetLocation(), "data:") {
			added.url = l.GetLocation()
		}
		g.layers[digest.Digest(l.GetGzipDigest())] = added
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return nil, err
	}
	g.change = fmt.Sprintf("%s %x", oci.Platforms(platforms), sha256.Sum256(raw))
	for _, d := range p.GetDigests() {
		g.roots = append(g.roots, digest.Digest(d))
	}
	return g, nil
}

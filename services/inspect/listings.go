package inspect

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

	"slipway.dev/services/inspect/listing"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// listings reads layers, a few at a time, and remembers what small ones hold. Safe for
// concurrent use.
type listings struct {
	known *otter.Cache[listingKey, *listing.Listing]
	turns *semaphore.Weighted

	mu      sync.Mutex
	clients map[string]*clientTurns
}

// clientTurns are those of one client, for as long as it has one or waits for one.
type clientTurns struct {
	*semaphore.Weighted
	asking int
}

// listingKey is a layer where somebody may read it; the zero repository is this service.
type listingKey struct {
	repo   upstream.Repository
	digest digest.Digest
}

func newListings() *listings {
	return &listings{
		turns: semaphore.NewWeighted(limits.ListedAtOnce), clients: map[string]*clientTurns{},
		known: otter.Must(&otter.Options[listingKey, *listing.Listing]{
			MaximumWeight: limits.ListingsKept,
			Weigher:       func(_ listingKey, l *listing.Listing) uint32 { return l.Weight() },
		}),
	}
}

// list returns a page of a layer's listing.
func (s *Service) list(ctx context.Context, who caller.ID, l look, layer ocispec.Descriptor, q listing.Query) (listing.Page, error) {
	from, err := s.sourceOf(ctx, l, layer)
	if err != nil {
		return listing.Page{}, err
	}
	if all, ok := s.listings.known.GetIfPresent(from.key); ok {
		return all.Page(q), nil
	}
	client, limit := s.account(ctx, who)
	price := &toll{charge: func(pulls int) error {
		_, err := s.deps.Limiter.Charge(ctx, "pulls", client, limit, pulls)
		return err
	}}
	if err := price.stored(layer.Size); err != nil {
		return listing.Page{}, err
	}
	done, err := s.listings.begin(ctx, client)
	if err != nil {
		return listing.Page{}, err
	}
	defer done()
	if all, ok := s.listings.known.GetIfPresent(from.key); ok { // read meanwhile
		return all.Page(q), nil
	}
	page, all, err := read(ctx, from, layer, price.unpacked, q)
	if all != nil {
		s.listings.known.Set(from.key, all)
	}
	return page, cmp.Or(price.refused, err)
}

// toll is what it costs to have a layer read: a pull for each limits.ListedCharge of it, as
// stored or unpacked, whichever is more. What is unpacked is charged as it comes: a
// layer does not say what it unpacks to.
type toll struct {
	charge func(pulls int) error
	// paid is up to where it is charged, in bytes, and seen what is unpacked.
	paid, seen int64
	// refused is why no more is charged.
	refused error
}

func (t *toll) stored(size int64) error {
	pulls := size / limits.ListedCharge
	t.paid = pulls * limits.ListedCharge
	return t.charge(int(pulls))
}

func (t *toll) unpacked(n int64) error {
	for t.seen += n; t.refused == nil && t.seen >= t.paid+limits.ListedCharge; t.paid += limits.ListedCharge {
		t.refused = t.charge(1)
	}
	return t.refused
}

// begin waits for a client's turn to have a layer read.
func (r *listings) begin(ctx context.Context, client string) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, limits.ListedWait)
	defer cancel()
	own := r.enter(client)
	if err := own.Acquire(waiting, 1); err != nil {
		r.leave(client)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Exhausted.Newf("%d layers are being read for you at the moment; try again when they are listed", limits.ListedAtOnceClient).After(5 * time.Second)
	}
	if err := r.turns.Acquire(waiting, 1); err != nil {
		own.Release(1)
		r.leave(client)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Unavailable.New("Too many layers are being read at the moment; try again", err).After(5 * time.Second)
	}
	return func() {
		r.turns.Release(1)
		own.Release(1)
		r.leave(client)
	}, nil
}

func (r *listings) enter(client string) *clientTurns {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.clients[client]
	if own == nil {
		own = &clientTurns{Weighted: semaphore.NewWeighted(limits.ListedAtOnceClient)}
		r.clients[client] = own
	}
	own.asking++
	return own
}

func (r *listings) leave(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.clients[client]; own != nil {
		if own.asking--; own.asking == 0 {
			delete(r.clients, client)
		}
	}
}

// listable says why the files of a layer are not listed; nil where they are.
func listable(layer ocispec.Descriptor) error {
	switch {
	case len(layer.URLs) > 0:
		return fault.Invalid.Newf("The layer %s lies outside the image's registry, where this service does not read it", layer.Digest)
	case !oci.IsLayer(layer):
		return fault.Invalid.Newf("The layer %s is of the type %q, of which no files are listed", layer.Digest, fault.Quote(layer.MediaType))
	case layer.Size <= 0:
		return fault.Invalid.Newf("The image does not say how large its layer %s is", layer.Digest)
	case layer.Size > limits.ListedPacked:
		return fault.Invalid.Newf("The layer %s has %d MiB; files are listed of layers of up to %d MiB. `slipway pull` fetches the image", layer.Digest, layer.Size>>20, limits.ListedPacked>>20)
	}
	return nil
}

// read reads a layer, and verifies it, before anything of it is believed.
func read(ctx context.Context, from source, layer ocispec.Descriptor, unpacked func(int64) error, q listing.Query) (listing.Page, *listing.Listing, error) {
	within, cancel := context.WithTimeout(ctx, limits.ListedTime)
	defer cancel()
	page, all, err := listing.Read(within, layertar.Layer{
		Name: layer.Digest.String(), Size: layer.Size, Unpacked: unpacked,
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			content, err := from.open(ctx)
			if err != nil {
				return nil, err
			}
			return &checked{ReadCloser: content, want: layer.Digest, seen: layer.Digest.Verifier(), left: layer.Size}, nil
		},
	}, q)
	if refusal, ok := errors.AsType[*layertar.Refusal](err); ok {
		return page, nil, fault.Invalid.New("The layer "+refusal.Layer+" "+refusal.Why, refusal.Cause)
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return page, nil, fault.Timeout.New("The layer "+layer.Digest.String()+" could not be read within "+limits.ListedTime.String()+"; `slipway pull` fetches the image", err)
	}
	return page, all, from.fault(err)
}

// checked ends with an error where what was read is not what was wanted.
type checked struct {
	io.ReadCloser
	want digest.Digest
	seen digest.Verifier
	left int64
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.left -= int64(n)
	_, _ = c.seen.Write(p[:n]) // a hash takes everything
	if c.left < 0 || errors.Is(err, io.EOF) && (c.left > 0 || !c.seen.Verified()) {
		return 0, fault.Invalid.Newf("What is kept as the layer %s does not have that digest", c.want)
	}
	return n, err
}

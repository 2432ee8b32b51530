// Package layers holds what a request says of its layers against what they are: those that
// come with it, and those at an address.
package layers

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// Links knows which addresses answered lately, and which hold the layer that they are
// said to.
type Links struct {
	client *upstream.Client
	log    *slog.Logger
	good   *otter.Cache[string, struct{}]
	right  *otter.Cache[linkedLayer, struct{}]
	flight memo.Flight[linkedLayer, hashed]
	// turns are as many as may be read at a time.
	turns chan struct{}
	mu    sync.Mutex
	// reading is how many each client waits for.
	reading map[string]int
}

// linkedLayer is a layer at an address, and what a request says of it.
type linkedLayer struct {
	url             string
	gzipped, tarred digest.Digest
	size            int64
}

// hashed is what there is at an address.
type hashed struct {
	gzipped, tarred digest.Digest
	// size is in bytes; unpacked is what they are uncompressed.
	size, unpacked int64
}

// lately is a memory of what was found good.
func lately[K comparable](d time.Duration) *otter.Cache[K, struct{}] {
	return otter.Must(&otter.Options[K, struct{}]{MaximumSize: 10_000, ExpiryCalculator: otter.ExpiryWriting[K, struct{}](d)})
}

// NewLinks makes one that remembers nothing yet.
func NewLinks(c *upstream.Client, log *slog.Logger) *Links {
	return &Links{
		client: c, log: log, turns: make(chan struct{}, limits.LayerFetches), reading: map[string]int{},
		good: lately[string](10 * time.Minute), right: lately[linkedLayer](24 * time.Hour),
	}
}

// Check asks an address that a field names for its first byte.
func (l *Links) Check(ctx context.Context, field, url string) error {
	if _, ok := l.good.GetIfPresent(url); ok {
		return nil
	}
	if err := l.client.Probe(ctx, url); err != nil {
		return inField(field, err)
	}
	l.good.Set(url, struct{}{})
	return nil
}

// inField is an error of the client, as a refusal of what a field holds.
func inField(field string, err error) error {
	e, ok := fault.As(err)
	if !ok {
		return err
	}
	return fault.Invalid.New(field+": "+e.Public, e.Cause)
}

// errUnverified says that it cannot be known in time whether a layer is right.
var errUnverified = errors.New("it is too large, its server too slow, or too many are read for the client")

// share has a client wait for one layer more; false when that would be too many. done
// ends it.
func (l *Links) share(client string) (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading[client] >= limits.LayerFetchesClient {
		return nil, false
	}
	l.reading[client]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.reading[client]--; l.reading[client] == 0 {
			delete(l.reading, client)
		}
	}, true
}

// fetch hashes what is at an address, for as many layers of a client at a time as may be.
func (l *Links) fetch(ctx, fetching context.Context, want linkedLayer, most int64) (hashed, error) {
	done, ok := l.share(rpc.CallFrom(ctx).Client())
	if !ok {
		return hashed{}, errUnverified
	}
	defer done()
	return l.flight.Do(fetching, want, func(ctx context.Context) (hashed, error) { return l.hash(ctx, want, most) })
}

// Verify fetches a layer at an address, unless it was right before, and holds it against
// what the request says. fault.Invalid, naming the field, where they differ. What takes
// longer than until fetching ends, or is too large, is left to who pulls it.
func (l *Links) Verify(ctx, fetching context.Context, u *Unpacking, field string, layer *containerv1.Layer) error {
	want := linkedLayer{layer.GetLocation(), digest.Digest(layer.GetGzipDigest()), digest.Digest(layer.GetTarDigest()), layer.GetGzipSize()}
	if _, ok := l.right.GetIfPresent(want); ok {
		return l.Check(ctx, field+".location", want.url)
	}
	most := min(u.left, limits.LayerFloor+limits.LayerRatio*want.size)
	got, err := l.fetch(ctx, fetching, want, most)
	u.left -= got.unpacked
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnverified), fetching.Err() != nil:
		l.log.InfoContext(ctx, "A layer at an address was not verified", "host", hostOf(want.url), "digest", want.gzipped.String(), "why", errUnverified.Error())
		return l.Check(ctx, field+".location", want.url)
	case err != nil:
		return inField(field+".location", err)
	}
	if err := got.differs(field, want); err != nil {
		return err
	}
	l.right.Set(want, struct{}{})
	l.good.Set(want.url, struct{}{})
	return nil
}

// differs says in which way a layer is not the one that a request means.
func (h hashed) differs(field string, want linkedLayer) error {
	switch {
	case h.size != want.size:
		return fault.Invalid.Newf("%s.gzipSize is %d, but at its location there are %s bytes", field, want.size, h.length(want.size))
	case h.gzipped != want.gzipped:
		return fault.Invalid.Newf("%s.gzipDigest does not match what is at its location, whose digest is %s", field, h.gzipped)
	case h.tarred != want.tarred:
		return fault.Invalid.Newf("%s.tarDigest does not match what is at its location, whose digest, uncompressed, is %s", field, h.tarred)
	}
	return nil
}

// length is the size in words: no more is read than was said.
func (h hashed) length(said int64) string {
	if h.size > said {
		return "more"
	}
	return fmt.Sprint(h.size)
}

// hash reads what is at an address, and no more of it than was said. Uncompressed it may
// have so many bytes. errUnverified where there is more, or no turn.
func (l *Links) hash(ctx context.Context, want linkedLayer, most int64) (out hashed, err error) {
	if want.size > limits.LayerFetched {
		return out, errUnverified
	}
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	resp, err := l.client.Fetch(ctx, want.url)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.ContentLength >= 0 && resp.ContentLength != want.size {
		return hashed{size: resp.ContentLength}, nil
	}
	in := &hashedBody{in: io.LimitReader(resp.Body, want.size+1), sum: digest.SHA256.Digester()}
	tar := digest.SHA256.Digester()
	z, err := gzip.NewReader(in)
	if err == nil {
		out.unpacked, err = io.Copy(tar.Hash(), io.LimitReader(z, most+1))
	}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case in.err != nil && !errors.Is(in.err, io.EOF):
		return out, fault.Invalid.New(fmt.Sprintf("%s broke off after %d bytes", hostOf(want.url), in.read), in.err)
	case out.unpacked > most:
		return out, errUnverified
	case err != nil && (in.read == want.size || !errors.Is(err, io.ErrUnexpectedEOF)):
		return out, fault.Invalid.New("what is there is not a gzip file", err)
	}
	out.size, out.gzipped, out.tarred = in.read, in.sum.Digest(), tar.Digest()
	return out, nil
}

// hashedBody is a body that is hashed while it is read.
type hashedBody struct {
	in   io.Reader
	sum  digest.Digester
	read int64
	err  error // what ended it
}

// Read implements io.Reader.
func (b *hashedBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	_, _ = b.sum.Hash().Write(p[:n])
	b.read += int64(n)
	b.err = err
	return n, err
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

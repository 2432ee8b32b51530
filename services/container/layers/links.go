// Package layers verifies the layers of requests, both inline layers and layers at URLs.
package layers

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/upstream"
)

// Links caches which URLs responded recently, and which ones were verified to hold the
// described layer.
type Links struct {
	client *upstream.Client
	log    *slog.Logger
	good   *memo.Cache[string, struct{}]
	right  *memo.Cache[linkedLayer, struct{}]
	flight memo.Flight[linkedLayer, hashed]
	// turns divides the concurrent downloads among clients.
	turns *fairshare.Pool
}

// A linkedLayer is a layer at a URL as a request describes it.
type linkedLayer struct {
	url             string
	gzipped, tarred digest.Digest
	size            int64
}

// A hashed is the result of downloading a URL.
type hashed struct {
	gzipped, tarred digest.Digest
	// size is the compressed size in bytes, unpacked the uncompressed one.
	size, unpacked int64
}

// lately returns a cache whose entries expire after d.
func lately[K comparable](d time.Duration) *memo.Cache[K, struct{}] {
	return memo.NewCache(memo.Options[K, struct{}]{Most: 10_000, Age: d})
}

// NewLinks returns an empty cache.
func NewLinks(c *upstream.Client, reg prometheus.Registerer, log *slog.Logger) *Links {
	l := &Links{
		client: c, log: log, good: lately[string](10 * time.Minute), right: lately[linkedLayer](24 * time.Hour),
		turns: fairshare.New(fairshare.Config{
			Name: "layers at addresses that are verified", Capacity: limits.LayerFetches, PerClient: limits.LayerFetchesClient, MaxWaiting: limits.LayersWaiting,
		}),
	}
	reg.MustRegister(l.turns)
	return l
}

// Check requests the first byte of a URL in a field.
func (l *Links) Check(ctx context.Context, field, url string) error {
	if _, ok := l.good.Get(url); ok {
		return nil
	}
	if err := l.client.Probe(ctx, url); err != nil {
		return inField(field, err)
	}
	l.good.Set(url, struct{}{})
	return nil
}

// inField converts an error of the client to an error of the request's field.
func inField(field string, err error) error {
	e, ok := fault.As(err)
	if !ok {
		return err
	}
	return fault.Invalid.New(field+": "+e.Public, e.Cause)
}

// errUnverified is returned if a layer cannot be verified in time.
var errUnverified = errors.New("it is too large, its server too slow, or too many layers are being read")

// fetch hashes the content of a URL when it is the client's turn.
func (l *Links) fetch(fetching context.Context, client fairshare.Client, want linkedLayer, most int64) (hashed, error) {
	return l.flight.Do(fetching, want, func(ctx context.Context) (hashed, error) {
		if want.size > limits.LayerFetched {
			return hashed{}, errUnverified
		}
		turn, err := l.turns.Acquire(ctx, fairshare.Request{Client: client, Class: fairshare.Long})
		if _, busy := fault.As(err); busy {
			return hashed{}, errUnverified
		}
		if err != nil {
			return hashed{}, err
		}
		defer turn.Release()
		return l.hash(ctx, want, most)
	})
}

// Verify fetches a layer at a URL, unless it was verified recently, and verifies it against
// the request. It returns fault.Invalid with the field if they differ. A layer that is too
// large, or cannot be verified before fetching ends, is accepted: pulling clients verify it.
func (l *Links) Verify(ctx, fetching context.Context, u *Unpacking, field string, layer *containerv1.Layer) error {
	want := linkedLayer{layer.GetLocation(), digest.Digest(layer.GetGzipDigest()), digest.Digest(layer.GetTarDigest()), layer.GetGzipSize()}
	if _, ok := l.right.Get(want); ok {
		return l.Check(ctx, field+".location", want.url)
	}
	most := min(u.left, limits.LayerFloor+limits.LayerRatio*want.size)
	got, err := l.fetch(fetching, u.client, want, most)
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

// differs returns an error that describes how a layer differs from the request, or nil.
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

// length returns the size for messages: no more than the described size is read.
func (h hashed) length(described int64) string {
	if h.size > described {
		return "more"
	}
	return fmt.Sprint(h.size)
}

// hash reads the content of a URL up to the described size. It returns errUnverified if the
// content has more than most uncompressed bytes.
func (l *Links) hash(ctx context.Context, want linkedLayer, most int64) (out hashed, err error) {
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
		return out, fault.Invalid.New("the content is not a gzip file", err)
	}
	out.size, out.gzipped, out.tarred = in.read, in.sum.Digest(), tar.Digest()
	return out, nil
}

// A hashedBody is a body that is hashed while it is read.
type hashedBody struct {
	in   io.Reader
	sum  digest.Digester
	read int64
	err  error // the error that ended it
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

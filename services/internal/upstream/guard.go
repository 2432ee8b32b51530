package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// guard stands between regclient and other people's registries. It hides how long
// a registry wants us to wait: regclient would sleep for that time, while somebody
// waits for an answer. And it reads everything but blobs beforehand, so that
// regclient decodes only what is in proportion.
type guard struct {
	http.RoundTripper
	docs *Documents
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	resp.Header.Del("Retry-After")
	switch {
	case r.Method == http.MethodHead || resp.StatusCode >= 300 && resp.StatusCode < 400:
	case resp.StatusCode >= 300:
		resp.Body = limited{io.LimitReader(resp.Body, limits.ErrorAnswer), resp.Body}
	case !isBlob(r):
		err = g.document(r, resp)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if next := resp.Header.Get("Link"); next != "" && !anotherPage(r.Context()) {
		resp.Header.Del("Link")
	}
	return resp, nil
}

// document reads an answer, and puts what it read in its place.
func (g guard) document(r *http.Request, resp *http.Response) error {
	raw, release, err := g.docs.Read(r.Context(), resp.Body, resp.ContentLength)
	if err == nil {
		err = oci.Check(raw)
		if err != nil {
			release()
		}
	}
	if errors.As(err, new(*fault.Error)) || r.Context().Err() != nil {
		return err
	}
	if err != nil {
		return unexpected(r.URL.Host, err)
	}
	resp.Body = released{bytes.NewReader(raw), resp.Body, sync.OnceFunc(release)}
	return nil
}

// isBlob says whether a request, or the one that led to it, was for a blob: those
// are streams.
func isBlob(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return strings.Contains(r.URL.Path, "/blobs/")
}

// limited is the beginning of a body.
type limited struct {
	io.Reader
	io.Closer
}

// released is a body that was read, whose memory counts until it is closed.
type released struct {
	io.Reader
	body    io.Closer
	release func()
}

// Close ends both.
func (b released) Close() error {
	b.release()
	return b.body.Close()
}

type pagesKey struct{}

// WithPages lets the requests of ctx read at most limits.ReferrerPages pages of a
// list; what links to more is taken for the end.
func WithPages(ctx context.Context) context.Context {
	left := new(atomic.Int32)
	left.Store(limits.ReferrerPages - 1)
	return context.WithValue(ctx, pagesKey{}, left)
}

func anotherPage(ctx context.Context) bool {
	left, ok := ctx.Value(pagesKey{}).(*atomic.Int32)
	return !ok || left.Add(-1) >= 0
}

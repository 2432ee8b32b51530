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

// A guard is the transport of regclient. It hides the Retry-After header, for which
// regclient would sleep during a user's request. It also reads all responses except blobs
// in advance, so that regclient only decodes JSON within the limits.
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
		resp.Body = limitedBody{io.LimitReader(resp.Body, limits.ErrorAnswer), resp.Body}
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

// document reads and checks a response and replaces its body.
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
	resp.Body = bufferedBody{bytes.NewReader(raw), resp.Body, sync.OnceFunc(release)}
	return nil
}

// isBlob reports whether a request, or the first request of its redirects, was for a blob.
// Blobs are streamed.
func isBlob(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return strings.Contains(r.URL.Path, "/blobs/")
}

// A limitedBody is the beginning of a body.
type limitedBody struct {
	io.Reader
	io.Closer
}

// A bufferedBody is a body that was read in advance. Its memory is counted until it is
// closed.
type bufferedBody struct {
	io.Reader
	body    io.Closer
	release func()
}

// Close implements io.Closer.
func (b bufferedBody) Close() error {
	b.release()
	return b.body.Close()
}

type pagesKey struct{}

// WithPages limits the requests with ctx to limits.ReferrerPages pages of a list. Links to
// further pages are removed.
func WithPages(ctx context.Context) context.Context {
	left := new(atomic.Int32)
	left.Store(limits.ReferrerPages - 1)
	return context.WithValue(ctx, pagesKey{}, left)
}

func anotherPage(ctx context.Context) bool {
	left, ok := ctx.Value(pagesKey{}).(*atomic.Int32)
	return !ok || left.Add(-1) >= 0
}

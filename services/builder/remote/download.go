package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// Download fetches a context or a layer from a URL and follows redirects. It only connects
// to permitted addresses.
func (d Deps) Download(ctx context.Context, what, url string) (io.ReadCloser, error) {
	transport := upstream.NewTransport(d.Egress)
	c := &http.Client{Transport: transport, CheckRedirect: upstream.CheckRedirect}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, jobs.Build.Failure(what+" has a malformed address", err)
	}
	resp, err := c.Do(req)
	if err != nil {
		text := req.URL.Host + " cannot be reached"
		if f, ok := fault.As(err); ok {
			text = f.Public
		}
		return nil, jobs.Build.Failure(what+" could not be fetched: "+text, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, jobs.Build.Failure(fmt.Sprintf("%s could not be fetched: %s answered %d", what, req.URL.Host, resp.StatusCode), nil)
	}
	return &fetched{resp.Body, transport}, nil
}

// fetched is a response body that closes its connections.
type fetched struct {
	io.ReadCloser
	transport *http.Transport
}

// Close closes the connections.
func (d *fetched) Close() error {
	err := d.ReadCloser.Close()
	time.AfterFunc(time.Second, d.transport.CloseIdleConnections)
	return err
}

// IsURL reports whether location is a URL, as opposed to content that came with the
// request.
func IsURL(location string) bool {
	return strings.HasPrefix(location, "http://") || strings.HasPrefix(location, "https://")
}

// Chunked returns a reader of a stream of chunks.
func Chunked[M interface{ GetChunk() []byte }](receive func() (M, error), cancel context.CancelFunc) *chunks {
	return &chunks{cancel: cancel, next: func() ([]byte, error) {
		m, err := receive()
		if err != nil {
			return nil, err
		}
		return m.GetChunk(), nil
	}}
}

type chunks struct {
	next   func() ([]byte, error)
	cancel context.CancelFunc
	rest   []byte
}

// Read returns the next bytes.
func (c *chunks) Read(p []byte) (n int, err error) {
	for len(c.rest) == 0 {
		if c.rest, err = c.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Close cancels the stream.
func (c *chunks) Close() error { c.cancel(); return nil }

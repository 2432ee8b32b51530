package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Probe requests the first byte of a URL and follows redirects. It returns fault.Invalid if
// the response is not content, or the address is not allowed.
func (c *Client) Probe(ctx context.Context, rawURL string) error {
	resp, err := c.visit(ctx, rawURL, http.Header{"Range": {"bytes=0-0"}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Fetch opens a URL and follows redirects. The length of the body is -1 if the server did
// not state it. Errors are the same as those of Probe. The caller must close the body.
func (c *Client) Fetch(ctx context.Context, rawURL string) (*http.Response, error) {
	return c.visit(ctx, rawURL, nil)
}

// visit follows redirects until a response is content.
func (c *Client) visit(ctx context.Context, rawURL string, header http.Header) (*http.Response, error) {
	for range limits.Redirects + 1 {
		resp, next, err := c.request(ctx, rawURL, header)
		if err != nil || next == "" {
			return resp, err
		}
		rawURL = next
	}
	return nil, fault.Invalid.Newf("there are too many redirects")
}

// request sends one request. It returns the content, or the URL of a redirect.
func (c *Client) request(ctx context.Context, rawURL string, header http.Header) (content *http.Response, next string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return nil, "", fault.Invalid.New("the URL is malformed", err)
	}
	maps.Copy(req.Header, header)
	resp, err := c.send(req)
	switch {
	case err != nil && (ctx.Err() != nil || errors.As(err, new(*fault.Error))):
		return nil, "", err
	case err != nil:
		return nil, "", fault.Invalid.New(req.URL.Host+" cannot be reached", err)
	case isContent(resp, header):
		return resp, "", nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 300 || resp.StatusCode > 399 {
		return nil, "", fault.Invalid.New(fmt.Sprintf("%s returned status %d", req.URL.Host, resp.StatusCode), nil)
	}
	to, err := resp.Location()
	if err != nil {
		return nil, "", fault.Invalid.New(req.URL.Host+" redirects without a valid Location", err)
	}
	return nil, to.String(), nil
}

// isContent reports whether a response is the requested content. A partial response is only
// accepted for a range.
func isContent(resp *http.Response, header http.Header) bool {
	return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent && header.Get("Range") != ""
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Probe asks a URL for its first byte, along redirects. fault.Invalid when it
// does not answer with content, or lies where this service may not go.
func (c *Client) Probe(ctx context.Context, rawURL string) error {
	resp, err := c.visit(ctx, rawURL, http.Header{"Range": {"bytes=0-0"}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Fetch begins to read what is at a URL, along redirects; the length of its body is -1
// where the server did not say. The errors are Probe's; the caller closes the body.
func (c *Client) Fetch(ctx context.Context, rawURL string) (*http.Response, error) {
	return c.visit(ctx, rawURL, nil)
}

// visit goes along redirects until there is content.
func (c *Client) visit(ctx context.Context, rawURL string, header http.Header) (*http.Response, error) {
	for range limits.Redirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
		if err != nil {
			return nil, fault.Invalid.New("the URL is malformed", err)
		}
		for k, v := range header {
			req.Header[k] = v
		}
		resp, err := c.send(req)
		if err != nil {
			if ctx.Err() != nil || errors.As(err, new(*fault.Error)) {
				return nil, err
			}
			return nil, fault.Invalid.New(req.URL.Host+" cannot be reached", err)
		}
		if isContent(resp, header) {
			return resp, nil
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			return nil, fault.Invalid.New(fmt.Sprintf("%s answered %d", req.URL.Host, resp.StatusCode), nil)
		}
		next, err := resp.Location()
		if err != nil {
			return nil, fault.Invalid.New(req.URL.Host+" redirects to nowhere", err)
		}
		rawURL = next.String()
	}
	return nil, fault.Invalid.Newf("there are too many redirects")
}

// isContent says whether an answer is what was asked for; a part only where one was.
func isContent(resp *http.Response, header http.Header) bool {
	return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent && header.Get("Range") != ""
}

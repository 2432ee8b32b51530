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
		resp, next, err := c.ask(ctx, rawURL, header)
		if err != nil || next == "" {
			return resp, err
		}
		rawURL = next
	}
	return nil, fault.Invalid.Newf("there are too many redirects")
}

// ask sends one request: what comes is what was asked for, or where to ask next.
func (c *Client) ask(ctx context.Context, rawURL string, header http.Header) (content *http.Response, next string, err error) {
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
		return nil, "", fault.Invalid.New(fmt.Sprintf("%s answered %d", req.URL.Host, resp.StatusCode), nil)
	}
	to, err := resp.Location()
	if err != nil {
		return nil, "", fault.Invalid.New(req.URL.Host+" redirects to nowhere", err)
	}
	return nil, to.String(), nil
}

// isContent says whether an answer is what was asked for; a part only where one was.
func isContent(resp *http.Response, header http.Header) bool {
	return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent && header.Get("Range") != ""
}

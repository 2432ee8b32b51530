package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"slipway.dev/services/internal/fault"
)

// Probe asks a URL for its first byte, along redirects. fault.Invalid when it
// does not answer with content, or lies where this service may not go.
func (c *Client) Probe(ctx context.Context, rawURL string) error {
	for range 6 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
		if err != nil {
			return fault.Invalid.New("the URL is malformed", err)
		}
		req.Header.Set("Range", "bytes=0-0")
		resp, err := c.send(req)
		if err != nil {
			if ctx.Err() != nil || errors.As(err, new(*fault.Error)) {
				return err
			}
			return fault.Invalid.New(req.URL.Host+" cannot be reached", err)
		}
		_ = resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent:
			return nil
		case resp.StatusCode >= 300 && resp.StatusCode < 400:
			next, err := resp.Location()
			if err != nil {
				return fault.Invalid.New(req.URL.Host+" redirects to nowhere", err)
			}
			rawURL = next.String()
		default:
			return fault.Invalid.New(fmt.Sprintf("%s answered %d", req.URL.Host, resp.StatusCode), nil)
		}
	}
	return fault.Invalid.Newf("there are too many redirects")
}

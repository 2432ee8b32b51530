package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
)

// devicePause is the default polling interval, and its increase when the server requests
// less frequent polling (RFC 8628, 3.2 and 3.5).
const devicePause = 5 * time.Second

// device holds a code to show, and one to poll with.
type device struct {
	Secret   string  `json:"device_code"`
	Code     string  `json:"user_code"`
	Page     string  `json:"verification_uri"`
	Lifetime float64 `json:"expires_in"` // seconds
	Interval float64 `json:"interval"`   // seconds
}

// signInWithDevice returns a new access token for this machine: the user enters a code in a
// browser on any machine (gateway/contract/platform.md#sign-in).
func (s *Settings) signInWithDevice(cmd *cobra.Command, base *url.URL) (string, error) {
	c := s.clientOf(base, "")
	d, err := c.device(cmd.Context())
	if err != nil {
		return "", fmt.Errorf("asking for a code: %w", err)
	}
	cmd.PrintErrf("Open this page in a browser, on any machine:\n  %s\nand enter this code:\n  %s\nWaiting; Ctrl-C ends it …\n", output.Printable(d.Page), output.Printable(d.Code))
	ctx, cancel := context.WithTimeout(cmd.Context(), span(d.Lifetime))
	defer cancel()
	jwt, err := c.awaitDevice(ctx, d)
	switch {
	case cmd.Context().Err() != nil:
		return "", errors.New("interrupted before the sign-in was complete")
	case ctx.Err() != nil:
		return "", fmt.Errorf("the code was not entered within %s; run the command again", span(d.Lifetime))
	case err != nil:
		return "", fmt.Errorf("signing in: %w", err)
	}
	return s.clientOf(base, jwt).tokenOfMachine(cmd.Context())
}

// device requests a code.
func (c *Client) device(ctx context.Context) (device, error) {
	var d device
	res, raw, err := c.PostForm(ctx, "/api/oauth/device_authorization", url.Values{"client_id": {clientID}})
	if err != nil {
		return d, err
	}
	if res.StatusCode != http.StatusOK {
		return d, c.Refusal(res, raw)
	}
	if err := json.Unmarshal(raw, &d); err != nil || d.Secret == "" || d.Code == "" || d.Page == "" || d.Lifetime < 1 {
		return d, c.Foreign(errors.New("there is no code in its answer"))
	}
	return d, nil
}

// awaitDevice polls for the access token until the code was entered, with the server's
// interval. It also retries while the server is briefly unavailable.
func (c *Client) awaitDevice(ctx context.Context, d device) (string, error) {
	pause := span(d.Interval)
	if pause <= 0 {
		pause = devicePause
	}
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
		res, raw, err := c.PostForm(ctx, "/api/oauth/access_token", url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {d.Secret}, "client_id": {clientID},
		})
		if err != nil {
			continue
		}
		var answer struct {
			Token string `json:"access_token"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal(raw, &answer); err == nil && res.StatusCode == http.StatusOK && answer.Token != "" {
			return answer.Token, nil
		}
		switch {
		case answer.Error == "slow_down":
			pause += devicePause
		case answer.Error == "authorization_pending", res.StatusCode == http.StatusTooManyRequests, res.StatusCode >= http.StatusInternalServerError:
		default:
			return "", c.Refusal(res, raw)
		}
	}
}

// span converts seconds from JSON.
func span(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

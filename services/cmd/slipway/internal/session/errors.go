package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"slipway.dev/services/cmd/slipway/internal/output"
)

// Unanswered returns an error for a failed request, without the path, which may contain a
// token.
func (c *Client) Unanswered(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	server := c.Base.Redacted()
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %s; allow it more with --timeout: %w", server, c.http.Timeout, err)
	case ok && dial.Op == "dial":
		return fmt.Errorf("no server answers at %s; start one with `slipwayd serve`, or set --server or SLIPWAY_SERVER: %w", server, err)
	}
	return fmt.Errorf("talking to %s: %w", server, err)
}

// Refusal returns the server's own message and known remedies.
func Refusal(res *http.Response, raw []byte) error {
	var body struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Message == "" {
		body.Message = fmt.Sprintf("the server answered %s, and not as a Slipway server does; check --server: %s", res.Status, output.Printable(output.Clip(string(raw))))
	}
	return &Refused{text: output.PrintableLines(body.Message + remedy(res, body.Message)), Status: res.StatusCode, Raw: raw}
}

// Refused is the error of a response other than 2xx. Its text may have several lines.
type Refused struct {
	text   string
	Status int
	Raw    []byte
}

// Error returns the server's own message.
func (r *Refused) Error() string { return r.text }

// remedy returns a known remedy for the server's message.
func remedy(res *http.Response, message string) string {
	wait, location := res.Header.Get("Retry-After"), res.Header.Get("Location")
	switch {
	case res.StatusCode == http.StatusUnauthorized && strings.HasPrefix(res.Header.Get("Www-Authenticate"), "Basic"):
		return " (it is read from SLIPWAY_METRICS_USER, or from --user, as NAME:PASSWORD)"
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden && !isSigned(res):
		return " (sign in with `slipway login`, or set SLIPWAY_TOKEN or --token-file)"
	case wait != "" && strings.Contains(message, "again"): // the message says when
	case wait != "":
		if _, err := strconv.Atoi(wait); err == nil {
			return " (try again in " + wait + " seconds)"
		}
		return " (try again after " + wait + ")" // a date
	case location != "":
		return " (it points to " + location + "; no redirect is followed: give --server the address that it leads to)"
	}
	return ""
}

// isSigned reports whether the access token was sent with the call.
func isSigned(res *http.Response) bool {
	return res.Request != nil && res.Request.Header.Get("Authorization") != ""
}

// UnlessRefused returns the error unless it is a Refused.
func UnlessRefused(err error) error {
	if _, ok := errors.AsType[*Refused](err); ok {
		return nil
	}
	return err
}

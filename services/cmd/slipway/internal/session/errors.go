package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
)

// explain returns an error of a call with the options of this program that help.
func (s *Settings) explain(err error) error {
	if no, ok := errors.AsType[*client.Error](err); ok {
		return refused(no)
	}
	if e, ok := errors.AsType[*client.UnreachableError](err); ok {
		return s.unreachable(e)
	}
	e, ok := errors.AsType[*client.ForeignError](err)
	switch {
	case !ok:
		return err
	case errors.Is(e, client.ErrNoName):
		return errors.New("the answer holds no name; check --server")
	case errors.Is(e, client.ErrNoImage):
		return errors.New("the answer describes no image; check --server")
	}
	return fmt.Errorf("%s does not answer like a Slipway server; check --server: %w", e.Server, e.Err)
}

func (s *Settings) unreachable(e *client.UnreachableError) error {
	dial, ok := errors.AsType[*net.OpError](e.Err)
	switch {
	case errors.Is(e.Err, context.Canceled):
		return fmt.Errorf("interrupted: %w", e.Err)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not respond within %s; allow it more with --timeout: %w", e.Server, s.Timeout, e.Err)
	case ok && dial.Op == "dial":
		return fmt.Errorf("no server answers at %s; start one with `slipwayd serve`, or choose another with --server, SLIPWAY_SERVER or `slipway config use`: %w", e.Server, e.Err)
	}
	return fmt.Errorf("talking to %s: %w", e.Server, e.Err)
}

// refused returns the server's own message and known remedies.
func refused(no *client.Error) error {
	text := no.Message
	if text == "" {
		text = fmt.Sprintf("the server answered %s, and not as a Slipway server does; check --server: %s", no.Response.Status, output.Printable(output.Clip(string(no.Body))))
	}
	return &Refused{text: output.PrintableLines(text + remedy(no.Response, text)), Status: no.Response.StatusCode, Raw: no.Body, Response: no}
}

// Refused is the error of a response other than 2xx. Its text may have several lines.
type Refused struct {
	text   string
	Status int
	Raw    []byte
	// Response is the response, for its code and its conflict.
	Response *client.Error
}

// Error returns the server's own message.
func (r *Refused) Error() string { return r.text }

// Unwrap returns the response.
func (r *Refused) Unwrap() error { return r.Response }

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

// UnlessRefused returns nil for a Refused, and any other error unchanged.
func UnlessRefused(err error) error {
	if _, ok := errors.AsType[*Refused](err); ok {
		return nil
	}
	return err
}

// A failure is an error as JSON.
type failure struct {
	Message string `json:"message"`
	// Code and the others are of the server's response; see client.Error.
	Code       string          `json:"code,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	Status     int             `json:"status,omitempty"`
	RetryAfter float64         `json:"retryAfter,omitempty"` // seconds
}

// PrintError prints the error of a command to standard error: as text or, if the result of the
// command would have been JSON, as JSON in one line.
func PrintError(cmd *cobra.Command, err error) {
	if !output.IsJSON(cmd) {
		cmd.PrintErrln(output.Problem(cmd), err)
		return
	}
	f := failure{Message: err.Error()}
	if no, ok := errors.AsType[*client.Error](err); ok {
		f.Code, f.Details, f.Status, f.RetryAfter = no.Code, no.Details, no.Response.StatusCode, no.RetryAfter.Seconds()
	}
	encoder := json.NewEncoder(cmd.ErrOrStderr())
	encoder.SetEscapeHTML(false)
	if bad := encoder.Encode(f); bad != nil { // details are JSON only if the server is correct
		cmd.PrintErrln("slipway:", err)
	}
}

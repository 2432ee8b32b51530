package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An Error is a response other than 2xx.
type Error struct {
	// Message is the server's message, for users; "" if the response is not an error of a
	// Slipway server.
	Message string
	// Code identifies the error and never changes its meaning, e.g. "conda.conflict"
	// (gateway/contract/errors.md).
	Code string
	// Details is the error in machine-readable form; nil for a code without details.
	Details json.RawMessage
	// RetryAfter is the time after which a retry may succeed; 0 if unknown.
	RetryAfter time.Duration
	// Response is the response, whose body is closed, and Body is its body.
	Response *http.Response
	Body     []byte
}

// NewError returns the error of a response with its body.
func NewError(res *http.Response, body []byte) *Error {
	e := &Error{Response: res, Body: body}
	var text struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &text); err == nil {
		e.Message = text.Message
	}
	var more struct {
		Code    string          `json:"code"`
		Details json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(body, &more); err == nil && e.Message != "" {
		e.Code, e.Details = more.Code, more.Details
	}
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	return e
}

// Error returns the server's message.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server responded with %s, and not as a Slipway server does", e.Response.Status)
	}
	return e.Message
}

// An UnreachableError is returned if there is no complete response. It does not contain the
// path of the call, which may have a token.
type UnreachableError struct {
	Server string // without a password
	Err    error
}

// Error returns the server and the cause.
func (e *UnreachableError) Error() string { return "calling " + e.Server + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A ForeignError is returned for a response that no Slipway server sends.
type ForeignError struct {
	Server string // without a password
	Err    error
}

// Error returns the server and what is wrong.
func (e *ForeignError) Error() string {
	return e.Server + " does not respond like a Slipway server: " + e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *ForeignError) Unwrap() error { return e.Err }

// A BuildError is returned if a build failed.
type BuildError struct {
	// BuildID is the build, e.g. to read its log.
	BuildID string
	Result
}

// Error returns the kind of the failure and its reason, which may have several lines.
func (e *BuildError) Error() string {
	text := "build " + e.BuildID + " failed"
	if e.ReasonCode != "" {
		text += " (" + e.ReasonCode + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// A ScanError is returned if a required scan failed, or found more than the request tolerates.
type ScanError struct {
	// ScanID is the scan; "" if the server does not return it.
	ScanID string
	// Message states why.
	Message string
}

// Error returns the reason.
func (e *ScanError) Error() string { return e.Message }

// Unreachable returns the error of a call without a complete response, as Do does.
func (c *Client) Unreachable(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return c.explained(&UnreachableError{Server: c.Base.Redacted(), Err: err})
}

// Foreign returns the error of a response that cannot be decoded, as Do does.
func (c *Client) Foreign(err error) error {
	return c.explained(&ForeignError{Server: c.Base.Redacted(), Err: err})
}

// Refusal returns the error of a response other than 2xx, as Do does.
func (c *Client) Refusal(res *http.Response, body []byte) error {
	return c.explained(NewError(res, body))
}

func (c *Client) explained(err error) error {
	if c.Explain == nil {
		return err
	}
	return c.Explain(err)
}

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// connectionError is the error of a broken connection, after which a retry is useful.
type connectionError struct{ error }

// Unwrap returns the cause.
func (e connectionError) Unwrap() error { return e.error }

// DoRaw makes a call once, without a timeout, with additional headers, and returns any
// response. The caller closes it.
func (c *Client) DoRaw(ctx context.Context, what Call, header http.Header) (*http.Response, error) {
	req, err := c.request(ctx, what)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	res, err := c.http(0).Do(req)
	if err != nil {
		return nil, c.Unreachable(err)
	}
	return res, nil
}

// Open makes a call without a timeout, with additional headers, and returns the body of the
// response. A status other than 200 is an error. A Read fails if nothing is received for the
// duration silence. The caller closes the body.
func (c *Client) Open(ctx context.Context, what Call, header http.Header, silence time.Duration) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &responseBody{cancel: cancel, silence: silence}
	a.timer = time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing was received for %s", silence)) })
	res, err := c.DoRaw(ctx, what, header)
	if err != nil {
		a.stop()
		return nil, connectionError{err}
	}
	a.body = res.Body
	if res.StatusCode == http.StatusOK {
		return a, nil
	}
	defer res.Body.Close()
	defer a.stop()
	raw, err := io.ReadAll(io.LimitReader(a, MaxResponse))
	if err != nil {
		return nil, connectionError{c.Unreachable(err)}
	}
	err = c.Refusal(res, raw)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode > http.StatusNotImplemented {
		err = connectionError{err}
	}
	return nil, err
}

// responseBody is a response body whose call is cancelled if nothing is received for the duration
// silence.
type responseBody struct {
	body    io.ReadCloser
	timer   *time.Timer
	silence time.Duration
	cancel  context.CancelCauseFunc
}

// Read reads the next bytes.
func (a *responseBody) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.timer.Reset(a.silence)
	return n, err
}

// Close ends the call.
func (a *responseBody) Close() error {
	a.stop()
	return a.body.Close()
}

func (a *responseBody) stop() {
	a.timer.Stop()
	a.cancel(nil)
}

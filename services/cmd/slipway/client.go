package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxAnswer is the most that is read of an answer, in bytes.
const maxAnswer = 40_000_000

// longestWait is how long this program waits by itself for a server that answers
// that there were too many calls.
const longestWait = 5 * time.Second

// client speaks the REST contract with one server.
type client struct {
	base  *url.URL
	token string        // empty for an anonymous caller
	login *url.Userinfo // signs every call in with HTTP basic; nil does not
	agent string        // what this program calls itself
	http  http.Client
}

// call is one call of the contract.
type call struct {
	method string
	path   string // below the server's URL
	query  url.Values
	signed bool          // whether the access token goes with it
	body   proto.Message // nil for none
}

// do makes a call and reads its answer into out, which is nil where none is
// expected. It answers the JSON as the server wrote it, with what this program
// does not know yet.
func (c *client) do(ctx context.Context, what call, out proto.Message) ([]byte, error) {
	res, err := c.send(ctx, what)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unanswered(err)
	}
	switch {
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case res.StatusCode/100 != 2:
		return nil, refusal(res, raw)
	case out == nil:
		return raw, nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return nil, c.strange(err)
	}
	return raw, nil
}

// strange is the error of an answer that cannot be read.
func (c *client) strange(err error) error {
	return fmt.Errorf("%s does not answer like a Slipway server; check --server: %w", c.base.Redacted(), err)
}

// send makes a call. A server that wants fewer of them for a moment is given
// that moment.
func (c *client) send(ctx context.Context, what call) (*http.Response, error) {
	for tries := 1; ; tries++ {
		req, err := c.request(ctx, what)
		if err != nil {
			return nil, err
		}
		res, err := c.http.Do(req)
		if err != nil {
			return nil, c.unanswered(err)
		}
		wait, isShort := shortWait(res)
		if !isShort || tries == 5 {
			return res, nil
		}
		_ = res.Body.Close() // nobody reads it
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, c.unanswered(ctx.Err())
		}
	}
}

// shortWait answers how long to wait for a server that answers that there were too
// many calls; false when there were not, or when it is for the user to wait.
func shortWait(res *http.Response) (time.Duration, bool) {
	n, err := strconv.Atoi(res.Header.Get("Retry-After"))
	wait := time.Duration(n) * time.Second
	return wait, err == nil && res.StatusCode == http.StatusTooManyRequests && wait <= longestWait
}

func (c *client) request(ctx context.Context, what call) (*http.Request, error) {
	var body io.Reader
	if what.body != nil {
		raw, err := protojson.Marshal(what.body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	target := c.base.JoinPath(what.path)
	target.RawQuery = what.query.Encode()
	req, err := http.NewRequestWithContext(ctx, what.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.agent)
	if what.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if what.signed && c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.login != nil {
		password, _ := c.login.Password()
		req.SetBasicAuth(c.login.Username(), password)
	}
	return req, nil
}

// remove makes a DELETE call, and says so.
func (c *client) remove(cmd *cobra.Command, what call, name string) error {
	what.method, what.signed = http.MethodDelete, true
	if _, err := c.do(cmd.Context(), what, nil); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Deleted %s.\n", printable(name))
	return err
}

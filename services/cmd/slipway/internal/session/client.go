package session

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

	"slipway.dev/services/cmd/slipway/internal/output"
)

// maxAnswer is the most that is read of an answer, in bytes.
const maxAnswer = 40_000_000

// longestWait is how long this program waits by itself for a server that answers
// that there were too many calls.
const longestWait = 5 * time.Second

// Client speaks the REST contract with one server.
type Client struct {
	Base  *url.URL
	Token string        // empty for an anonymous caller
	Login *url.Userinfo // signs every call in with HTTP basic; nil does not
	agent string        // what this program calls itself
	http  http.Client
}

// Call is one call of the contract.
type Call struct {
	Method string
	Path   string // below the server's URL
	Query  url.Values
	Signed bool          // whether the access token goes with it
	Body   proto.Message // nil for none
}

// Do makes a call and reads its answer into out, which is nil where none is
// expected. It answers the JSON as the server wrote it, with what this program
// does not know yet.
func (c *Client) Do(ctx context.Context, what Call, out proto.Message) ([]byte, error) {
	res, err := c.send(ctx, what)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, c.Unanswered(err)
	}
	switch {
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case res.StatusCode/100 != 2:
		return nil, Refusal(res, raw)
	case out == nil:
		return raw, nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return nil, c.Strange(err)
	}
	return raw, nil
}

// Strange is the error of an answer that cannot be read.
func (c *Client) Strange(err error) error {
	return fmt.Errorf("%s does not answer like a Slipway server; check --server: %w", c.Base.Redacted(), err)
}

// send makes a call. A server that wants fewer of them for a moment is given
// that moment.
func (c *Client) send(ctx context.Context, what Call) (*http.Response, error) {
	for tries := 1; ; tries++ {
		req, err := c.request(ctx, what)
		if err != nil {
			return nil, err
		}
		res, err := c.http.Do(req)
		if err != nil {
			return nil, c.Unanswered(err)
		}
		wait, isShort := shortWait(res)
		if !isShort || tries == 5 {
			return res, nil
		}
		_ = res.Body.Close() // nobody reads it
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, c.Unanswered(ctx.Err())
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

func (c *Client) request(ctx context.Context, what Call) (*http.Request, error) {
	var body io.Reader
	if what.Body != nil {
		raw, err := protojson.Marshal(what.Body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	target := c.Base.JoinPath(what.Path)
	target.RawQuery = what.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, what.Method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.agent)
	if what.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if what.Signed && c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Login != nil {
		password, _ := c.Login.Password()
		req.SetBasicAuth(c.Login.Username(), password)
	}
	return req, nil
}

// Remove makes a DELETE call, and says so.
func (c *Client) Remove(cmd *cobra.Command, what Call, name string) error {
	what.Method, what.Signed = http.MethodDelete, true
	if _, err := c.Do(cmd.Context(), what, nil); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Deleted %s.\n", output.Printable(name))
	return err
}

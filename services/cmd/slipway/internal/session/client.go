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

// maxAnswer is the maximum size of a response in bytes.
const maxAnswer = 40_000_000

// longestWait is how long this program waits on its own if the server responds that there
// are too many calls.
const longestWait = 5 * time.Second

// Client is a client of one server's REST contract.
type Client struct {
	Base  *url.URL
	Token string        // "" for an anonymous caller
	Login *url.Userinfo // HTTP basic credentials for every call; nil for none
	agent string        // User-Agent of this program
	http  http.Client
}

// Call is one call of the contract.
type Call struct {
	Method string
	Path   string // below the server's URL
	Query  url.Values
	Signed bool          // whether the access token is sent
	Body   proto.Message // nil for none
}

// Do makes a call and decodes its response into out, which is nil if no body is expected.
// It returns the server's JSON, including members that this program does not know.
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

// Strange returns the error of a response that cannot be decoded.
func (c *Client) Strange(err error) error {
	return fmt.Errorf("%s does not answer like a Slipway server; check --server: %w", c.Base.Redacted(), err)
}

// send makes a call, and repeats it after a short pause if the server requests one.
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
		_ = res.Body.Close() // not used
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, c.Unanswered(ctx.Err())
		}
	}
}

// shortWait returns how long to wait after a response with status 429; false for other
// responses, or if the wait is too long.
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

// Remove makes a DELETE call and prints that.
func (c *Client) Remove(cmd *cobra.Command, what Call, name string) error {
	what.Method, what.Signed = http.MethodDelete, true
	if _, err := c.Do(cmd.Context(), what, nil); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Deleted %s.\n", output.Printable(name))
	return err
}

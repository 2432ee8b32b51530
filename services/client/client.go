package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// MaxResponse is the maximum size of a response in bytes.
const MaxResponse = 40_000_000

// longestWait is the longest Retry-After after which a client repeats a call by itself, and
// attempts is the maximum number of attempts.
const (
	longestWait = 5 * time.Second
	attempts    = 5
)

// A Client is a client of one server. It may be used concurrently while its fields do not
// change.
type Client struct {
	// Base is the server's URL. A path in it is the prefix of all paths.
	Base *url.URL
	// Token is the access token; "" for an anonymous caller. It is only sent to the server.
	Token string
	// Login holds HTTP basic credentials for every call; nil for none.
	Login *url.Userinfo
	// UserAgent is the name and version of the program.
	UserAgent string
	// Timeout is the timeout of one call; 0 for none. It does not apply to Ask and Open, nor
	// to the methods that use them, Log and Follow.
	Timeout time.Duration
	// Explain returns the error to report in place of an *Error, an *UnreachableError or a
	// *ForeignError, e.g. with the options of a program that help; nil reports it unchanged.
	Explain func(error) error
}

// New returns a client with a timeout of a minute. The server is an http or https URL.
func New(server, token string) (*Client, error) {
	base, err := ParseServer(server)
	if err != nil {
		return nil, err
	}
	return &Client{Base: base, Token: token, UserAgent: "slipway-go", Timeout: time.Minute}, nil
}

// ParseServer returns the URL of a server, which must be absolute.
func ParseServer(server string) (*url.URL, error) {
	base, err := url.Parse(server)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("the server must be a URL such as http://localhost:9090, not %q", server)
	}
	return base, nil
}

// A Call is one call of the REST API.
type Call struct {
	Method string
	Path   string // below the server's URL
	Query  url.Values
	Signed bool          // whether the access token is sent
	Body   proto.Message // nil for none
}

// Do makes a call and decodes its response into out, which is nil if no body is expected. It
// returns the server's JSON, including members that out does not have. If the server
// responds with 429 and a short Retry-After, the call is repeated.
//
// The error is an *Error for a response other than 2xx, an *UnreachableError if there is no
// complete response, and a *ForeignError if the response is not that of a Slipway server.
func (c *Client) Do(ctx context.Context, what Call, out proto.Message) ([]byte, error) {
	res, err := c.send(ctx, what)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := c.read(res)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode/100 != 2:
		return nil, c.Refusal(res, raw)
	case out == nil:
		return raw, nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return nil, c.Foreign(err)
	}
	return raw, nil
}

// PostForm sends a form without the access token, and returns any response with its body.
func (c *Client) PostForm(ctx context.Context, path string, form url.Values) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base.JoinPath(path).String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", c.UserAgent)
	res, err := c.http(c.Timeout).Do(req)
	if err != nil {
		return nil, nil, c.Unreachable(err)
	}
	defer res.Body.Close()
	raw, err := c.read(res)
	if err != nil {
		return nil, nil, err
	}
	return res, raw, nil
}

// read reads a response of at most MaxResponse bytes.
func (c *Client) read(res *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxResponse+1))
	switch {
	case err != nil:
		return nil, c.Unreachable(err)
	case len(raw) > MaxResponse:
		return nil, fmt.Errorf("the response is larger than %d bytes", MaxResponse)
	}
	return raw, nil
}

// http returns an HTTP client.
func (*Client) http(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, CheckRedirect: rejectRedirects}
}

// rejectRedirects rejects redirects, since a redirected POST would become a GET without its body, and
// the access token must not be sent to another server.
func rejectRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// send makes a call, and repeats it after a short pause if the server requests one.
func (c *Client) send(ctx context.Context, what Call) (*http.Response, error) {
	for tries := 1; ; tries++ {
		req, err := c.request(ctx, what)
		if err != nil {
			return nil, err
		}
		res, err := c.http(c.Timeout).Do(req)
		if err != nil {
			return nil, c.Unreachable(err)
		}
		wait, isShort := shortWait(res)
		if !isShort || tries == attempts {
			return res, nil
		}
		_ = res.Body.Close() // not used
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, c.Unreachable(ctx.Err())
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
	req.Header.Set("User-Agent", c.UserAgent)
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

package channel

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// An Access is the client and the login that a channel is read with. An index that was
// fetched with one Scope is never returned for another. The zero value is anonymous.
type Access struct {
	// Scope separates the indexes of different logins; "" is shared by all callers.
	Scope string
	// Client is the user or address whose fair share the fetch counts against.
	Client fairshare.Client
	// Username determines how Password is sent: "bearer" as a bearer token, "token" in the
	// path (/t/<token>/), any other with HTTP basic authentication.
	Username, Password string
	// After, if not zero, is the earliest time at which the channel must have confirmed the
	// index. An older index is only returned if the channel cannot be read.
	After time.Time
}

// String returns a placeholder, so that logs never contain the login.
func (Access) String() string { return "[redacted]" }

// NewClient returns a client for channels. It follows safe redirects. The transport
// enforces the egress rules.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: upstream.CheckRedirect}
}

// errAbsent is returned if a channel does not have a file.
var errAbsent = errors.New("the channel does not have it")

// errUnchanged is returned if the existing index is up to date.
var errUnchanged = errors.New("the channel has nothing new")

// request requests a file of a channel. known holds the validators of an earlier response for
// the same file. It returns errAbsent, errUnchanged, or a fault that names the channel's
// host.
func (f *fetch) request(ctx context.Context, address string, known index.Meta) (*http.Response, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fault.Unavailable.New("The channel's addresses are malformed", nil)
	}
	within, end := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(within, http.MethodGet, u.String(), nil)
	if err != nil {
		end(err)
		return nil, fault.Unavailable.New("The channel's addresses are malformed", nil)
	}
	isSigned := f.login(req)
	req.Header.Set("User-Agent", "slipway")
	if known.ETag != "" {
		req.Header.Set("If-None-Match", known.ETag)
	}
	if known.LastModified != "" {
		req.Header.Set("If-Modified-Since", known.LastModified)
	}
	resp, err := f.store.http.Do(req)
	if err != nil {
		end(err)
		return nil, unreachable(ctx, u.Host, err)
	}
	resp.Body = pace(within, end, resp.Body)
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, limits.ErrorAnswer) // drained so that the connection is reused
	_ = resp.Body.Close()
	return nil, refused(u.Host, isSigned, resp)
}

// login adds the caller's login to a request to the channel's own host. Other hosts,
// including mirrors, never receive it. It reports whether the request has a login.
func (f *fetch) login(req *http.Request) bool {
	own, err := url.Parse(f.channel)
	return err == nil && spec.ChannelLogin{Channel: own, Username: f.access.Username, Password: f.access.Password}.Authorize(req)
}

// refused returns the error for a response without a file. isSigned is whether the request had
// the caller's login.
func refused(host string, isSigned bool, resp *http.Response) error {
	after := retryAfter(resp.Header)
	switch code := resp.StatusCode; code {
	case http.StatusNotModified:
		return errUnchanged
	case http.StatusNotFound, http.StatusGone:
		return errAbsent
	case http.StatusUnauthorized, http.StatusForbidden:
		if isSigned {
			return fault.Denied.Newf("%s does not accept your login for the channel, or has no such channel: replace the login, or ask for access to the channel", host)
		}
		return fault.Denied.Newf("%s does not let us read the channel: it is private, or does not exist; store your login for it with `slipway credentials add NAME --channel URL` and --username, --bearer or --token-in-path, or on the page, under Logins", host)
	case http.StatusTooManyRequests:
		return fault.Exhausted.Newf("%s limits the rate of requests; try again later", host).After(max(after, time.Second))
	default:
		return fault.Unavailable.Newf("%s is unavailable (status %d)", host, code).After(max(after, 5*time.Second))
	}
}

// unreachable returns the error for a request without a response. It omits the URL, which may
// contain a token.
func unreachable(ctx context.Context, host string, err error) error {
	if f, ok := fault.As(err); ok {
		return f
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fault.Unavailable.New(host+" did not respond in time", err).After(5 * time.Second)
	}
	return fault.Unavailable.New(host+" cannot be reached", err).After(5 * time.Second)
}

// retryAfter parses a number of seconds. Dates are rare, and would depend on the channel's
// clock.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}

// maxAge returns how long a response may be used.
func maxAge(h http.Header) time.Duration {
	for part := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(part), "max-age="); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return time.Duration(min(n, 24*3600)) * time.Second
			}
		}
	}
	return 0
}

// validators sets the validators of a response.
func validators(m *index.Meta, h http.Header) {
	m.ETag, m.LastModified = short(h.Get("Etag")), short(h.Get("Last-Modified"))
}

func short(s string) string {
	if len(s) > 1000 {
		return ""
	}
	return s
}

// A bounded is a stream that fails when it exceeds its limit.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fault.Unavailable.Newf("The channel's list of packages has more than %d bytes", int64(limits.ChannelDownload))
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

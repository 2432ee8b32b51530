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
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// Access is how a channel is asked: in whose name, and with which login. What one
// Access fetched is never shown to another. The zero value is anonymous.
type Access struct {
	// Scope tells callers apart; "" is everybody.
	Scope string
	// Client is who asks, and whose share of what is fetched at a time it is: a user or
	// an address.
	Client string
	// Username says how Password is shown: as "bearer" token, as a "token" in the path
	// (/t/<token>/), else both as HTTP basic.
	Username, Password string
}

// String keeps the login out of logs.
func (Access) String() string { return "[redacted]" }

// NewClient is a client for channels: it follows redirects as far as they are safe. The
// transport keeps the rules of egress.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: upstream.CheckRedirect}
}

// errAbsent says that a channel does not have a file.
var errAbsent = errors.New("the channel does not have it")

// errUnchanged says that a channel still has what is known.
var errUnchanged = errors.New("the channel has nothing new")

// ask gets a file of a channel. known are the validators of an answer before, of the
// same file. errAbsent and errUnchanged, or a fault that names the channel's host.
func (f *fetch) ask(ctx context.Context, address string, known index.Meta) (*http.Response, error) {
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
	f.login(req)
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
	_, _ = io.CopyN(io.Discard, resp.Body, limits.ErrorAnswer) // so that the connection is used again
	_ = resp.Body.Close()
	return nil, refused(u.Host, resp)
}

// login adds the caller's to a request to the channel's own host: no other gets it, and
// no mirror does, which the login's owner did not name.
func (f *fetch) login(req *http.Request) {
	if own, err := url.Parse(f.channel); err == nil {
		conda.Door{Channel: own, Username: f.access.Username, Password: f.access.Password}.Open(req)
	}
}

// refused says what an answer means that is no file.
func refused(host string, resp *http.Response) error {
	after := retryAfter(resp.Header)
	switch code := resp.StatusCode; code {
	case http.StatusNotModified:
		return errUnchanged
	case http.StatusNotFound, http.StatusGone:
		return errAbsent
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Denied.Newf("%s does not let us read the channel: it is private, or does not exist. Logins are credentials of the provider conda at the platform", host)
	case http.StatusTooManyRequests:
		return fault.Exhausted.Newf("%s answers that there are too many requests; try again later", host).After(max(after, time.Second))
	default:
		return fault.Unavailable.Newf("%s is out of order (it answered %d)", host, code).After(max(after, 5*time.Second))
	}
}

// unreachable says why there was no answer. The cause is not kept where it would repeat
// the URL, which may hold a token.
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
		return fault.Unavailable.New(host+" did not answer in time", err).After(5 * time.Second)
	}
	return fault.Unavailable.New(host+" cannot be reached", err).After(5 * time.Second)
}

// retryAfter reads seconds; dates are rare, and not worth a clock that we share.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}

// maxAge reads how long an answer may be used.
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

// validators are what an answer says about itself.
func validators(m *index.Meta, h http.Header) {
	m.ETag, m.LastModified = short(h.Get("Etag")), short(h.Get("Last-Modified"))
}

func short(s string) string {
	if len(s) > 1000 {
		return ""
	}
	return s
}

// bounded is a stream that is an error behind the bytes that it may have.
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

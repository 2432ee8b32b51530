package upstream

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"slipway.dev/services/internal/retry"
)

// attempts is how often a request is made in all, where it may help.
const attempts = 3

// get asks a registry, meets its challenge, and tries again where that may
// help. The answer is a success, a redirect or a 304; the caller closes it.
// Anything else is a fault.
func (c *Client) get(ctx context.Context, method, kind string, repo Repository, path string, a Access, header http.Header) (*http.Response, error) {
	ctx, span := c.tracer.Start(ctx, "upstream "+method+" "+kind, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("server.address", repo.Host), attribute.String("url.path", "/v2/"+repo.Name+path))
	}
	u := c.BaseURL(repo.Host) + "/v2/" + repo.Name + path
	defer c.metrics.took(repo.Host, kind, time.Now())
	resp, err := c.repeated(ctx, func() (*http.Response, error) { return c.authorized(ctx, method, u, tokenKey{repo, a}, header) })
	if err != nil {
		c.metrics.failed(repo.Host, kind)
		return nil, a.Explain(unreachable(repo.Host, err))
	}
	resp, err = c.checked(repo.Host, kind, resp)
	return resp, a.Explain(err)
}

// repeated sends a request again where that is worth it, after a pause.
func (c *Client) repeated(ctx context.Context, send func() (*http.Response, error)) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := send()
		if try == attempts || !worthRepeating(ctx, resp, err) {
			return resp, err
		}
		wait := backoff(try)
		if err == nil {
			wait = max(wait, RetryAfter(resp))
			drain(resp)
		}
		if !sleep(ctx, wait) {
			return resp, cmp.Or(ctx.Err(), err)
		}
	}
}

// authorized sends one request, and once more if the registry wants to know who
// asks.
func (c *Client) authorized(ctx context.Context, method, u string, key tokenKey, header http.Header) (*http.Response, error) {
	auth := c.auth.header(key)
	for second := false; ; second = true {
		req, err := http.NewRequestWithContext(ctx, method, u, nil)
		if err != nil {
			return nil, err
		}
		for k, v := range header {
			req.Header[k] = v
		}
		if auth != "" {
			req.Header.Set("Authorization", auth)
		}
		resp, err := c.send(req)
		if err != nil || resp.StatusCode != http.StatusUnauthorized || second {
			return resp, err
		}
		answer, err := c.auth.answer(ctx, key, resp)
		if answer == "" && err == nil {
			return resp, nil
		}
		drain(resp)
		if err != nil {
			return nil, err
		}
		auth = answer
	}
}

func (c *Client) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "slipway")
	return c.http.Do(req)
}

// checked turns anything but a success, a redirect or a 304 into a fault.
func (c *Client) checked(host, kind string, resp *http.Response) (*http.Response, error) {
	c.metrics.answered(host, kind, resp.StatusCode)
	if resp.StatusCode >= 200 && resp.StatusCode < 400 {
		return resp, nil
	}
	drain(resp)
	return nil, (&statusError{host, resp.StatusCode, RetryAfter(resp)}).fault()
}

func worthRepeating(ctx context.Context, resp *http.Response, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		return !isFinal(err) && !isTimeout(err)
	}
	return busy(resp.StatusCode) && resp.StatusCode != http.StatusNotImplemented && RetryAfter(resp) <= 5*time.Second
}

// busy says whether a status is about the server, and not about what was asked for.
func busy(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

func backoff(try int) time.Duration {
	d := 100 * time.Millisecond << (2 * (try - 1))
	return d/2 + rand.N(d) //nolint:gosec // jitter is no secret
}

// sleep waits; false when the context would end first.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	return retry.Sleep(ctx, d)
}

// RetryAfter reads the header, in seconds or as a date; 0 when it is not there.
func RetryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 0), 86400)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

// drain reads what little may be left, so that the connection can be used again.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

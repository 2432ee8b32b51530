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

// attempts is the maximum number of attempts of a request.
const attempts = 3

// get sends a request to a registry, authenticates if required, and retries temporary
// failures. It returns responses with a 2xx or 3xx status, which the caller must close, and
// a fault for all others.
func (c *Client) get(ctx context.Context, method, kind string, repo Repository, path string, a Access, header http.Header) (*http.Response, error) {
	ctx, span := c.tracer.Start(ctx, "upstream "+method+" "+kind, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("server.address", repo.Host), attribute.String("url.path", "/v2/"+repo.Name+path))
	}
	u := c.BaseURL(repo.Host) + "/v2/" + repo.Name + path
	defer c.metrics.observe(repo.Host, kind, time.Now())
	resp, err := c.withRetries(ctx, func() (*http.Response, error) {
		return c.authorized(ctx, method, u, tokenKey{repo: repo, access: a}, header)
	})
	if err != nil {
		c.metrics.failed(repo.Host, kind)
		return nil, a.Explain(unreachable(repo.Host, err))
	}
	resp, err = c.checked(repo.Host, kind, resp)
	return resp, a.Explain(err)
}

// withRetries calls send, and calls it again after temporary failures, with pauses.
func (c *Client) withRetries(ctx context.Context, send func() (*http.Response, error)) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := send()
		if try == attempts || !isTemporary(ctx, resp, err) {
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

// authorized sends a request. If the registry requires authentication, it sends the request
// again with an Authorization header.
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
		answer, err := c.auth.authorize(ctx, key, resp)
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

// checked converts responses without a 2xx or 3xx status to faults.
func (c *Client) checked(host, kind string, resp *http.Response) (*http.Response, error) {
	c.metrics.answered(host, kind, resp.StatusCode)
	if resp.StatusCode >= 200 && resp.StatusCode < 400 {
		return resp, nil
	}
	drain(resp)
	return nil, (&statusError{host, resp.StatusCode, RetryAfter(resp)}).fault()
}

func isTemporary(ctx context.Context, resp *http.Response, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		return !isFinal(err) && !isTimeout(err)
	}
	return busy(resp.StatusCode) && resp.StatusCode != http.StatusNotImplemented && RetryAfter(resp) <= 5*time.Second
}

// busy reports whether a status is a temporary condition of the server.
func busy(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

func backoff(try int) time.Duration {
	d := 100 * time.Millisecond << (2 * (try - 1))
	return d/2 + rand.N(d) //nolint:gosec // jitter is no secret
}

// sleep waits for d. It returns false, without waiting, if the context would expire before.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	return retry.Sleep(ctx, d)
}

// RetryAfter returns the delay in the Retry-After header, in seconds or as a date, or 0 without
// a valid header.
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

// drain reads the remainder of a short body, so that the connection can be reused, and
// closes it.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

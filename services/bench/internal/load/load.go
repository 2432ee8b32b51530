// Package load sends HTTP requests to a server, concurrently or at a given rate, and
// measures the responses.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
)

// A Call is a request that is sent many times. Any response other than 200 is an error.
type Call struct {
	Method, URL string
	// Body is JSON; "" is none. Token is an optional bearer token.
	Body, Token string
}

// Get and Post return calls without a login.
func Get(url string) Call        { return Call{Method: fasthttp.MethodGet, URL: url} }
func Post(url, body string) Call { return Call{Method: fasthttp.MethodPost, URL: url, Body: body} }

// request returns the HTTP request. The caller must release it.
func (k Call) request() *fasthttp.Request {
	req := fasthttp.AcquireRequest()
	req.SetRequestURI(k.URL)
	req.Header.SetMethod(k.Method)
	req.Header.SetUserAgent("bench")
	req.Header.Set("Accept", engine.Accepted)
	if k.Token != "" {
		req.Header.Set("Authorization", "Bearer "+k.Token)
	}
	if k.Body != "" {
		req.Header.SetContentType("application/json")
		req.SetBodyString(k.Body)
	}
	return req
}

// Client returns a client that keeps the given number of connections to one host. It uses
// fasthttp instead of net/http: the load shares the processors with the server, and its own
// processor time moves the ratios of servers towards 1. A request of fasthttp takes a third
// of the time of load generators that use net/http.
func Client(url string, connections int) *fasthttp.HostClient {
	req := Get(url).request()
	defer fasthttp.ReleaseRequest(req)
	return &fasthttp.HostClient{
		Addr: string(req.URI().Host()), MaxConns: connections, MaxIdemponentCallAttempts: 1,
		NoDefaultUserAgentHeader: true, DisableHeaderNamesNormalizing: true, ReadBufferSize: 16 << 10,
	}
}

// Once makes a single call on one of the client's connections.
func Once(c *fasthttp.HostClient, k Call) ([]byte, error) {
	req, resp := k.request(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	if err := c.Do(req, resp); err != nil {
		return nil, err
	}
	return slices.Clone(resp.Body()), checkResponse(k, resp)
}

func checkResponse(k Call, resp *fasthttp.Response) error {
	if resp.StatusCode() == fasthttp.StatusOK {
		return nil
	}
	body := resp.Body()
	return fmt.Errorf("%s %s: %d %s", k.Method, k.URL, resp.StatusCode(), body[:min(len(body), 500)])
}

// A Load is the same call from a fixed number of clients, each of which waits for a
// response before its next call.
type Load struct {
	Call
	Workers int
	// Count is the total number of calls.
	Count int
	// Every is the time between the calls of all clients together; 0 means that they call as
	// fast as possible.
	Every time.Duration
}

// Run makes the calls. It returns an error for any unexpected response.
func (l Load) Run(ctx context.Context) (figure.Sample, error) {
	c := Client(l.URL, l.Workers)
	defer c.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	durations := make([][]time.Duration, l.Workers)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range l.Workers {
		wg.Go(func() {
			var err error
			if durations[i], err = l.work(ctx, c, &next, begin); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	all := slices.Sorted(slices.Values(slices.Concat(durations...)))
	return figure.Sample{Rate: float64(len(all)) / elapsed.Seconds(), P50: figure.Percentile(all, 50), P99: figure.Percentile(all, 99)}, context.Cause(ctx)
}

// work makes calls until the count is reached or the context ends.
func (l Load) work(ctx context.Context, c *fasthttp.HostClient, next *atomic.Int64, begin time.Time) ([]time.Duration, error) {
	req, resp := l.request(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	list := make([]time.Duration, 0, l.Count/l.Workers*2+1)
	for n := next.Add(1) - 1; n < int64(l.Count) && ctx.Err() == nil; n = next.Add(1) - 1 {
		if l.Every > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(n) * l.Every)))
		}
		sent := time.Now()
		err := c.DoTimeout(req, resp, time.Minute)
		if err == nil {
			err = checkResponse(l.Call, resp)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, time.Since(sent))
	}
	return list, nil
}

// Turn returns the load as a contender. It measures the processor time per call of the
// server under test, its upstream and Redis, each of which may be nil.
func (l Load) Turn(ctx context.Context, name string, under, behind, store *process.Server) figure.Contender {
	return figure.Contender{Name: name, Run: func() figure.Sample {
		used := process.Watch(under, behind, store)
		s := must.Get(l.Run(ctx))
		seconds := used()
		each := float64(l.Count)
		s.CPU, s.Behind, s.Store = seconds[0]/each, seconds[1]/each, seconds[2]/each
		return s
	}}
}

// Warm makes the call a few times before it is measured.
func (l Load) Warm(ctx context.Context) {
	l.Count, l.Every = min(l.Count, 1000), 0
	must.Get(l.Run(ctx))
}

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// call is a request that is sent many times. Only a 200 is an answer.
type call struct {
	method, url string
	// body is JSON; "" is none. token is a bearer's, if any.
	body, token string
}

func get(url string) call        { return call{method: fasthttp.MethodGet, url: url} }
func post(url, body string) call { return call{method: fasthttp.MethodPost, url: url, body: body} }

// request is the call as it is sent; release it.
func (k call) request() *fasthttp.Request {
	req := fasthttp.AcquireRequest()
	req.SetRequestURI(k.url)
	req.Header.SetMethod(k.method)
	req.Header.SetUserAgent("bench")
	req.Header.Set("Accept", accepted)
	if k.token != "" {
		req.Header.Set("Authorization", "Bearer "+k.token)
	}
	if k.body != "" {
		req.Header.SetContentType("application/json")
		req.SetBodyString(k.body)
	}
	return req
}

// client keeps a connection for each of those that use it at once, to one host. It is
// fasthttp's, not net/http's: the load shares its processors with the server, and
// what the load takes for itself draws the ratios of servers towards 1. A request of
// fasthttp takes a third of one of the libraries that make loads on net/http.
func client(url string, connections int) *fasthttp.HostClient {
	req := get(url).request()
	defer fasthttp.ReleaseRequest(req)
	return &fasthttp.HostClient{
		Addr: string(req.URI().Host()), MaxConns: connections, MaxIdemponentCallAttempts: 1,
		NoDefaultUserAgentHeader: true, DisableHeaderNamesNormalizing: true, ReadBufferSize: 16 << 10,
	}
}

// once makes a single call, or one of several on the client's connection.
func once(c *fasthttp.HostClient, k call) ([]byte, error) {
	req, resp := k.request(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	if err := c.Do(req, resp); err != nil {
		return nil, err
	}
	return slices.Clone(resp.Body()), wanted(k, resp)
}

func wanted(k call, resp *fasthttp.Response) error {
	if resp.StatusCode() == fasthttp.StatusOK {
		return nil
	}
	body := resp.Body()
	return fmt.Errorf("%s %s: %d %s", k.method, k.url, resp.StatusCode(), body[:min(len(body), 500)])
}

// load is the same call from a fixed number of clients, each of which waits for an
// answer before it asks again.
type load struct {
	call
	workers int
	// count is how many calls there are in all.
	count int
	// every is the time from one call to the next, over all clients; 0 is as fast as
	// they are answered.
	every time.Duration
}

// run makes the calls. Any answer but the wanted one is an error.
func (l load) run(ctx context.Context) (sample, error) {
	c := client(l.url, l.workers)
	defer c.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	durations := make([][]time.Duration, l.workers)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range l.workers {
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
	return sample{rate: float64(len(all)) / elapsed.Seconds(), p50: percentile(all, 50), p99: percentile(all, 99)}, context.Cause(ctx)
}

// work makes calls until there are enough, or the context ends.
func (l load) work(ctx context.Context, c *fasthttp.HostClient, next *atomic.Int64, begin time.Time) ([]time.Duration, error) {
	req, resp := l.request(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	list := make([]time.Duration, 0, l.count/l.workers*2+1)
	for n := next.Add(1) - 1; n < int64(l.count) && ctx.Err() == nil; n = next.Add(1) - 1 {
		if l.every > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(n) * l.every)))
		}
		sent := time.Now()
		err := c.DoTimeout(req, resp, time.Minute)
		if err == nil {
			err = wanted(l.call, resp)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, time.Since(sent))
	}
	return list, nil
}

// turn is the load as a contender that is measured: with what the servers use per
// call, the one under test, then the one behind it and Redis (nil where there is none).
func (l load) turn(ctx context.Context, name string, under, behind, store *server) contender {
	return contender{name, func() sample {
		used := watch(under, behind, store)
		s := must(l.run(ctx))
		seconds := used()
		each := float64(l.count)
		s.cpu, s.behind, s.store = seconds[0]/each, seconds[1]/each, seconds[2]/each
		return s
	}}
}

// warm lets a server see the call before it counts.
func (l load) warm(ctx context.Context) {
	l.count, l.every = min(l.count, 1000), 0
	must(l.run(ctx))
}

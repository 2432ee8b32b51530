package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is the same call from a fixed number of clients, each of which waits for an
// answer before it asks again.
type load struct {
	host    string
	call    call
	workers int
	// count is how many calls there are in all.
	count int
	// every is the time from one call to the next, over all clients; 0 is as fast as
	// they are answered.
	every time.Duration
}

// sample is what one turn measured. Fields that a section does not measure are 0.
type sample struct {
	// rate is calls per second; p50 and p99 are latencies in seconds.
	rate, p50, p99 float64
	// cpu is seconds of the server under test, behind those of the server it asks,
	// store those of Redis: each per call.
	cpu, behind, store float64
	// speed is bytes per second, cost CPU seconds of the server per byte, and
	// behindCost those of the server it asks.
	speed, cost, behindCost float64
	// took is the seconds of a build, answered those until its request was.
	took, answered float64
}

// run makes the calls. Any answer but the wanted one is an error.
func (l load) run(ctx context.Context) (sample, error) {
	conns, err := l.connect(ctx)
	defer func() {
		for _, c := range conns {
			c.hangUp()
		}
	}()
	if err != nil {
		return sample{}, err
	}
	var left atomic.Int64
	left.Store(int64(l.count))
	took := make([][]time.Duration, l.workers)
	failed := make([]error, l.workers)
	var wg sync.WaitGroup
	begin := time.Now()
	for i, c := range conns {
		wg.Go(func() { took[i], failed[i] = l.work(c, &left, begin) })
	}
	wg.Wait()
	elapsed := time.Since(begin)
	for _, err := range failed {
		if err != nil {
			return sample{}, err
		}
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return sample{
		rate: float64(len(all)) / elapsed.Seconds(),
		p50:  percentile(all, 50).Seconds(),
		p99:  percentile(all, 99).Seconds(),
	}, nil
}

func (l load) connect(ctx context.Context) ([]*conn, error) {
	var conns []*conn
	for range l.workers {
		c, err := dial(ctx, l.host)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// work makes calls until none is left or one fails.
func (l load) work(c *conn, left *atomic.Int64, begin time.Time) ([]time.Duration, error) {
	took := make([]time.Duration, 0, l.count/l.workers*2+1)
	for n := left.Add(-1); n >= 0; n = left.Add(-1) {
		if l.every > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(int64(l.count)-n) * l.every)))
		}
		sent := time.Now()
		if _, _, err := c.do(l.call, nil); err != nil {
			left.Store(0)
			return took, err
		}
		took = append(took, time.Since(sent))
	}
	return took, nil
}

// percentile reads a sorted list; p is 0 to 100.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// metered runs the load and adds what the servers use per call: the one under
// test, then the one behind it and Redis, where there are any (nil where not).
func (l load) metered(ctx context.Context, under, behind, store *server) (sample, error) {
	var parts []*server
	for _, s := range []*server{under, behind, store} {
		if s == nil {
			s = under
		}
		parts = append(parts, s)
	}
	m, err := watch(parts...)
	if err != nil {
		return sample{}, err
	}
	s, err := l.run(ctx)
	if err != nil {
		return s, err
	}
	used, err := m.used()
	if err != nil {
		return s, err
	}
	each := func(i int, of *server) float64 {
		if of == nil {
			return 0
		}
		return used[i].Seconds() / float64(l.count)
	}
	s.cpu, s.behind, s.store = each(0, under), each(1, behind), each(2, store)
	return s, nil
}

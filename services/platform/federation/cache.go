package federation

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/memo"
)

// fetchTimeout is the timeout of a fetch. Several callers may wait for its result.
const fetchTimeout = 30 * time.Second

// A cache holds values from other platforms by key, for ttl. Safe for concurrent use.
type cache[T any] struct {
	ttl     time.Duration
	now     func() time.Time
	entries *memo.Cache[string, cached[T]]
	flights singleflight.Group
}

// A cached value is valid before until.
type cached[T any] struct {
	value T
	until time.Time
}

func newCache[T any](ttl time.Duration, now func() time.Time) *cache[T] {
	return &cache[T]{ttl: ttl, now: now, entries: memo.NewCache(memo.Options[string, cached[T]]{
		Most: 10_000, Age: ttl,
	})}
}

// lookUp returns the valid value of a key.
func (c *cache[T]) lookUp(key string) (cached[T], bool) {
	r, ok := c.entries.Get(key)
	return r, ok && c.now().Before(r.until)
}

// get returns the valid value of a key, or else calls fetch and caches its result. Concurrent
// calls for one key share one fetch, which continues if the first caller is cancelled. Errors
// are not cached, so that the next call retries.
func (c *cache[T]) get(ctx context.Context, key string, fetch func(context.Context) (T, error)) (cached[T], error) {
	if r, ok := c.lookUp(key); ok {
		return r, nil
	}
	result := c.flights.DoChan(key, func() (any, error) {
		if r, ok := c.lookUp(key); ok { // cached since the first lookup
			return r, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		v, err := fetch(ctx)
		r := cached[T]{v, c.now().Add(c.ttl)}
		if err == nil {
			c.entries.Set(key, r)
		}
		return r, err
	})
	select {
	case got := <-result:
		r, _ := got.Val.(cached[T])
		return r, got.Err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return cached[T]{}, fault.Timeout.New("The other platform did not respond in time", ctx.Err())
		}
		return cached[T]{}, ctx.Err()
	}
}

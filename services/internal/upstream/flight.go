package upstream

import (
	"context"
	"errors"
	"sync"
)

// Flight makes concurrent calls for the same key one call. The work goes on for
// as long as anyone waits for it: its context ends when the last caller has
// gone. The zero value is ready; safe for concurrent use.
type Flight[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V]
}

type call[V any] struct {
	done    chan struct{}
	waiting int
	cancel  context.CancelFunc
	value   V
	err     error
}

// Do answers work's result, sharing it with everybody who asks meanwhile. The
// first caller does the work itself, and stays until it ends.
func (f *Flight[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (V, error) {
	c, shared := f.join(ctx, key)
	if shared != nil {
		defer context.AfterFunc(ctx, func() { f.leave(key, c) })()
		f.run(shared, key, c, work)
		return c.value, c.err
	}
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		f.leave(key, c)
		var zero V
		return zero, ctx.Err()
	}
}

// join waits with those who are there; the first one gets the context to work
// with.
func (f *Flight[K, V]) join(ctx context.Context, key K) (*call[V], context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.calls[key]; ok {
		c.waiting++
		return c, nil
	}
	if f.calls == nil {
		f.calls = map[K]*call[V]{}
	}
	// What the request carries goes along; its end does not.
	shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{done: make(chan struct{}), waiting: 1, cancel: cancel, err: errors.New("the work of a joined call panicked")}
	f.calls[key] = c
	return c, shared
}

// run does the work, and lets the others go even when it panics.
func (f *Flight[K, V]) run(ctx context.Context, key K, c *call[V], work func(context.Context) (V, error)) {
	defer func() {
		c.cancel()
		f.mu.Lock()
		f.drop(key, c)
		f.mu.Unlock()
		close(c.done)
	}()
	c.value, c.err = work(ctx)
}

// leave stops the work when nobody waits for it any more.
func (f *Flight[K, V]) leave(key K, c *call[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
		f.drop(key, c)
	}
}

func (f *Flight[K, V]) drop(key K, c *call[V]) {
	if f.calls[key] == c {
		delete(f.calls, key)
	}
}

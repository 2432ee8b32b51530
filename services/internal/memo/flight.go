package memo

import (
	"context"
	"fmt"
	"runtime/debug"
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

// Do returns work's result, sharing it with everybody who asks meanwhile. A panic
// of work is an error of all of them.
func (f *Flight[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (V, error) {
	c := f.join(ctx, key, work)
	select {
	case <-c.done:
		f.leave(key, c)
		return c.value, c.err
	case <-ctx.Done():
		f.leave(key, c)
		var zero V
		return zero, ctx.Err()
	}
}

func (f *Flight[K, V]) join(ctx context.Context, key K, work func(context.Context) (V, error)) *call[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.calls[key]; ok {
		c.waiting++
		return c
	}
	if f.calls == nil {
		f.calls = map[K]*call[V]{}
	}
	// What the request carries goes along; its end does not.
	shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{done: make(chan struct{}), waiting: 1, cancel: cancel}
	f.calls[key] = c
	go func() {
		defer close(c.done)
		defer f.drop(key, c)
		defer func() {
			if p := recover(); p != nil {
				c.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		c.value, c.err = work(shared)
	}()
	return c
}

// leave stops the work when nobody waits for it any more.
func (f *Flight[K, V]) leave(key K, c *call[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
		f.dropLocked(key, c)
	}
}

// drop makes room for the next call.
func (f *Flight[K, V]) drop(key K, c *call[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(key, c)
}

func (f *Flight[K, V]) dropLocked(key K, c *call[V]) {
	if f.calls[key] == c {
		delete(f.calls, key)
	}
}

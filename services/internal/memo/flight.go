package memo

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// A Flight merges concurrent calls for the same key into one. The shared call continues while
// at least one caller waits for it, and its context is cancelled when the last caller is
// cancelled. The zero value is ready to use. A Flight is safe for concurrent use.
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

// Do calls work and returns its result, or waits for the result of a running call with the
// same key. If work panics, all callers get an error with the stack trace.
func (f *Flight[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (V, error) {
	c, shared := f.join(ctx, key)
	if shared != nil {
		go f.run(shared, key, c, work)
	}
	return f.wait(ctx, key, c)
}

// DoHere is like Do for work that ends soon: the first caller does it itself, which saves the
// start of a goroutine. While other callers wait, it does not end with the context of the first one.
func (f *Flight[K, V]) DoHere(ctx context.Context, key K, work func(context.Context) (V, error)) (V, error) {
	c, shared := f.join(ctx, key)
	if shared == nil {
		return f.wait(ctx, key, c)
	}
	stop := context.AfterFunc(ctx, func() { f.leave(key, c) })
	f.run(shared, key, c, work)
	if stop() {
		f.leave(key, c)
	}
	return c.value, c.err
}

// join returns the call of a key, and for the first caller, which has to run it, its context.
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
	// Keep the values of the first caller's context, but not its cancellation.
	shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{done: make(chan struct{}), waiting: 1, cancel: cancel}
	f.calls[key] = c
	return c, shared
}

func (f *Flight[K, V]) run(shared context.Context, key K, c *call[V], work func(context.Context) (V, error)) {
	defer close(c.done)
	defer f.drop(key, c)
	defer func() {
		if p := recover(); p != nil {
			c.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	c.value, c.err = work(shared)
}

func (f *Flight[K, V]) wait(ctx context.Context, key K, c *call[V]) (V, error) {
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

// leave removes a caller and cancels the call if no caller waits for it.
func (f *Flight[K, V]) leave(key K, c *call[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
		f.dropLocked(key, c)
	}
}

// drop removes a finished call, so that the next caller starts a new one.
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

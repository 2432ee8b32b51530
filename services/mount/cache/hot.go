package cache

import (
	"context"
	"crypto/sha256"
	"sync"

	"slipway.dev/services/mount/erofs"
)

func sum256(p []byte) [32]byte { return sha256.Sum256(p) }

// hotBytes is the maximum size of the chunks that are kept in memory, without those that are being fetched.
const hotBytes = 2 << 20

// completeBytes is that size while packages are completed: each worker holds the chunks of a request until it has written them.
const completeBytes = 4 * concurrentFetches * maxComplete * erofs.ChunkSize

// A key names a chunk of an environment.
type key struct {
	device *device
	chunk  int
}

// A chunk is one that is in memory, or being loaded.
type chunk struct {
	done chan struct{}
	data []byte
	err  error
}

// wait returns the chunk when it is loaded.
func (c *chunk) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-c.done:
		return c.data, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// hot holds the chunks that were loaded last.
type hot struct {
	limit int

	mu    sync.Mutex
	all   map[key]*chunk
	order []key // those that are loaded, oldest first
	bytes int
}

// grow raises the limit.
func (h *hot) grow(limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = max(h.limit, limit)
}

// acquire returns a chunk. If mine is set, the caller must load it and call finish.
func (h *hot) acquire(k key) (c *chunk, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c = h.all[k]; c != nil {
		return c, false
	}
	c = &chunk{done: make(chan struct{})}
	if h.all == nil {
		h.all = map[key]*chunk{}
	}
	h.all[k] = c
	return c, true
}

// claim returns a chunk that the caller must load and finish, or nil if it is in memory or being loaded.
func (h *hot) claim(k key) *chunk {
	if c, mine := h.acquire(k); mine {
		return c
	}
	return nil
}

// finish ends the loading of a chunk. Errors are not cached, so that the next call retries.
func (h *hot) finish(k key, c *chunk, data []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.data, c.err = data, err
	close(c.done)
	if err != nil {
		delete(h.all, k)
		return
	}
	h.order = append(h.order, k)
	h.bytes += len(data)
	for h.bytes > h.limit && len(h.order) > 1 {
		old := h.order[0]
		h.order = h.order[1:]
		h.bytes -= len(h.all[old].data)
		delete(h.all, old)
	}
}

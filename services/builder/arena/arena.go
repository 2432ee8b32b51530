// Package arena holds large tables outside the Go heap, within a budget.
//
// A table in the heap takes up to twice its size until garbage is collected, and a map
// more; a table in an Arena takes its size. Its records hold no Go pointers: they refer to
// each other by their numbers. All memory is released by Arena.Close; nothing in it may be
// used afterwards.
package arena

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// errFull is returned when a budget is used up.
var errFull = errors.New("the memory budget is used up")

// IsFull reports whether err was returned because a budget is used up.
func IsFull(err error) bool { return errors.Is(err, errFull) }

// Budget bounds the memory of several arenas together. It is safe for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes; 0 means no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit returns the limit in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns the bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Arena is memory that is released all at once. Each table belongs to one goroutine at a
// time; different tables may be used concurrently.
type Arena struct {
	budget *Budget
	used   atomic.Int64

	mu   sync.Mutex
	maps map[*byte][]byte
}

// New returns an empty arena. A nil budget means no limit.
func New(b *Budget) *Arena {
	if b == nil {
		b = NewBudget(0)
	}
	return &Arena{budget: b, maps: map[*byte][]byte{}}
}

// Close releases the memory.
func (a *Arena) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.maps {
		_ = unix.Munmap(m) // allocated with mmap, so that munmap succeeds
	}
	clear(a.maps)
	a.budget.used.Add(-a.used.Swap(0))
}

// Charge charges memory to the budget. The memory may be on the heap.
func (a *Arena) Charge(bytes int) error {
	a.used.Add(int64(bytes))
	if used := a.budget.used.Add(int64(bytes)); a.budget.limit > 0 && used > a.budget.limit {
		return errFull
	}
	return nil
}

// allocate returns zeroed memory without charging it.
func (a *Arena) allocate(bytes int) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes of memory: %w", bytes, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.maps[&m[0]] = m
	return m, nil
}

// free releases memory that allocate returned and that was charged.
func (a *Arena) free(m []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.maps, &m[0])
	_ = unix.Munmap(m)
	a.used.Add(-int64(len(m)))
	a.budget.used.Add(-int64(len(m)))
}

package memo

import (
	"iter"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
)

// A Cache holds values by key, within bounds. It is safe for concurrent use.
type Cache[K comparable, V any] struct{ all *entries }

// entries is the only instance of the library's cache. With one for each type, the compiler would make a thousand
// functions for each: a tenth of the program, and most of the time to compile it.
type entries = otter.Cache[any, any]

// Options are the bounds of a Cache. Either Most or Weight is set.
type Options[K comparable, V any] struct {
	// Most is the maximum number of entries.
	Most int
	// Weight is the maximum total of Weigh, usually in bytes.
	Weight uint64
	Weigh  func(K, V) uint32
	// An entry expires Age after it was written, or the result of AgeOf; or Idle after it was last read or written. At
	// most one is set; without them, entries do not expire.
	Age   time.Duration
	AgeOf func(V) time.Duration
	Idle  time.Duration
	// Hits counts lookups; nil for no counts.
	Hits *stats.Counter
}

// NewCache returns an empty cache.
func NewCache[K comparable, V any](o Options[K, V]) *Cache[K, V] {
	to := &otter.Options[any, any]{MaximumSize: o.Most, MaximumWeight: o.Weight}
	if o.Weigh != nil {
		to.Weigher = func(key, v any) uint32 { return o.Weigh(unboxed[K](key), unboxed[V](v)) }
	}
	switch {
	case o.Age != 0:
		to.ExpiryCalculator = otter.ExpiryWriting[any, any](o.Age)
	case o.AgeOf != nil:
		to.ExpiryCalculator = otter.ExpiryWritingFunc(func(e otter.Entry[any, any]) time.Duration { return o.AgeOf(unboxed[V](e.Value)) })
	case o.Idle != 0:
		to.ExpiryCalculator = otter.ExpiryAccessing[any, any](o.Idle)
	}
	if o.Hits != nil {
		to.StatsRecorder = o.Hits
	}
	return &Cache[K, V]{newEntries(to)}
}

// newEntries is not generic, so that the library's code is compiled in this package only.
func newEntries(o *otter.Options[any, any]) *entries { return otter.Must(o) }

// unboxed returns a stored key or value. A value of an interface type may be nil.
func unboxed[V any](v any) V {
	out, _ := v.(V)
	return out
}

// Get returns the value for key, if there is one.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	v, ok := c.all.GetIfPresent(key)
	return unboxed[V](v), ok
}

// Set stores a value, and replaces an earlier one.
func (c *Cache[K, V]) Set(key K, v V) { c.all.Set(key, v) }

// Delete removes the value for key, if there is one.
func (c *Cache[K, V]) Delete(key K) { c.all.Invalidate(key) }

// Keys returns the keys of all values.
func (c *Cache[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range c.all.Keys() {
			if k, ok := key.(K); ok && !yield(k) {
				return
			}
		}
	}
}

// Stop ends the goroutines of a cache that is no longer used.
func (c *Cache[K, V]) Stop() { c.all.StopAllGoroutines() }

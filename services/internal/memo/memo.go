// Package memo provides caches, also in front of lookups: concurrent lookups of the same key are merged into one.
package memo

import "context"

// A Memo caches values by key. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	cache  *Cache[K, V]
	flight Flight[K, V]
}

// New returns a Memo whose bounds are set by o.
func New[K comparable, V any](o Options[K, V]) *Memo[K, V] { return &Memo[K, V]{cache: NewCache(o)} }

// Get returns the cached value for key. If no value is cached, it calls lookup and caches its
// result. Concurrent calls share one lookup (see Flight). Errors are not cached, so that the
// next call retries.
func (m *Memo[K, V]) Get(ctx context.Context, key K, lookup func(context.Context) (V, error)) (V, error) {
	if v, ok := m.cache.Get(key); ok {
		return v, nil
	}
	return m.fill(ctx, key, lookup)
}

// fill looks up a value that is not cached. It is not part of Get, where its closure would move
// the key of every call to the heap.
func (m *Memo[K, V]) fill(ctx context.Context, key K, lookup func(context.Context) (V, error)) (V, error) {
	return m.flight.Do(ctx, key, func(ctx context.Context) (V, error) {
		v, err := lookup(ctx)
		if err == nil {
			m.cache.Set(key, v)
		}
		return v, err
	})
}

// Has reports whether a value is cached for key.
func (m *Memo[K, V]) Has(key K) bool {
	_, ok := m.cache.Get(key)
	return ok
}

// Delete removes the cached value, so that the next Get looks it up again.
func (m *Memo[K, V]) Delete(key K) { m.cache.Delete(key) }

// Set caches a value that was obtained without a lookup.
func (m *Memo[K, V]) Set(key K, v V) { m.cache.Set(key, v) }

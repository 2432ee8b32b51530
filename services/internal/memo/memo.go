// Package memo provides a cache in front of lookups. Concurrent lookups of the same key are
// merged into one.
package memo

import (
	"context"

	"github.com/maypok86/otter/v2"
)

// A Memo caches values by key. It is safe for concurrent use.
type Memo[K comparable, V any] struct {
	cache  *otter.Cache[K, V]
	flight Flight[K, V]
}

// New returns a Memo whose capacity and expiry are set by o.
func New[K comparable, V any](o *otter.Options[K, V]) *Memo[K, V] {
	return &Memo[K, V]{cache: otter.Must(o)}
}

// Get returns the cached value for key. If no value is cached, it calls lookup and caches its
// result. Concurrent calls share one lookup (see Flight). Errors are not cached, so that the
// next call retries.
func (m *Memo[K, V]) Get(ctx context.Context, key K, lookup func(context.Context) (V, error)) (V, error) {
	if v, ok := m.cache.GetIfPresent(key); ok {
		return v, nil
	}
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
	_, ok := m.cache.GetIfPresent(key)
	return ok
}

// Delete removes the cached value, so that the next Get looks it up again.
func (m *Memo[K, V]) Delete(key K) { m.cache.Invalidate(key) }

// Set caches a value that was obtained without a lookup.
func (m *Memo[K, V]) Set(key K, v V) { m.cache.Set(key, v) }

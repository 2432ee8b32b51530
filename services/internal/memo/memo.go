// Package memo remembers what was looked up, and looks the same thing up once for all
// who ask at a time.
package memo

import (
	"context"

	"github.com/maypok86/otter/v2"
)

// Memo remembers answers by key. Safe for concurrent use.
type Memo[K comparable, V any] struct {
	known  *otter.Cache[K, V]
	asking Flight[K, V]
}

// New makes a memo that holds as much, and for as long, as the options say.
func New[K comparable, V any](o *otter.Options[K, V]) *Memo[K, V] {
	return &Memo[K, V]{known: otter.Must(o)}
}

// Get returns what is remembered, else what ask returns, which goes on for as long as
// anyone waits for it (see Flight). An error is not remembered.
func (m *Memo[K, V]) Get(ctx context.Context, key K, ask func(context.Context) (V, error)) (V, error) {
	if v, ok := m.known.GetIfPresent(key); ok {
		return v, nil
	}
	return m.asking.Do(ctx, key, func(ctx context.Context) (V, error) {
		v, err := ask(ctx)
		if err == nil {
			m.known.Set(key, v)
		}
		return v, err
	})
}

// Has says whether there is an answer for a key.
func (m *Memo[K, V]) Has(key K) bool {
	_, ok := m.known.GetIfPresent(key)
	return ok
}

// Set remembers an answer that came another way.
func (m *Memo[K, V]) Set(key K, v V) { m.known.Set(key, v) }

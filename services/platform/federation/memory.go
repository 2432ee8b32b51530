package federation

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"slipway.dev/services/internal/fault"
)

// askTTL bounds a question that somebody else may wait for, too.
const askTTL = 30 * time.Second

// memory is what others said, by key, for a while. Safe for concurrent use.
type memory[T any] struct {
	ttl    time.Duration
	now    func() time.Time
	known  *otter.Cache[string, remembered[T]]
	asking singleflight.Group
}

// remembered is an answer that holds until an instant.
type remembered[T any] struct {
	value T
	until time.Time
}

func newMemory[T any](ttl time.Duration, now func() time.Time) *memory[T] {
	return &memory[T]{ttl: ttl, now: now, known: otter.Must(&otter.Options[string, remembered[T]]{
		MaximumSize: 10_000, ExpiryCalculator: otter.ExpiryWriting[string, remembered[T]](ttl),
	})}
}

func (m *memory[T]) recall(key string) (remembered[T], bool) {
	r, ok := m.known.GetIfPresent(key)
	return r, ok && m.now().Before(r.until)
}

// get returns what is remembered and still holds, else what ask answers. Those who
// want to know the same at once ask once, and a question goes on when the first of
// them goes away. An error is not remembered.
func (m *memory[T]) get(ctx context.Context, key string, ask func(context.Context) (T, error)) (remembered[T], error) {
	if r, ok := m.recall(key); ok {
		return r, nil
	}
	answer := m.asking.DoChan(key, func() (any, error) {
		if r, ok := m.recall(key); ok { // meanwhile
			return r, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTTL)
		defer cancel()
		v, err := ask(ctx)
		r := remembered[T]{v, m.now().Add(m.ttl)}
		if err == nil {
			m.known.Set(key, r)
		}
		return r, err
	})
	select {
	case got := <-answer:
		r, _ := got.Val.(remembered[T])
		return r, got.Err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return remembered[T]{}, fault.Timeout.New("The other platform did not answer in time", ctx.Err())
		}
		return remembered[T]{}, ctx.Err()
	}
}

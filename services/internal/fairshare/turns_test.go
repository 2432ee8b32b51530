package fairshare_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
)

// TestTurns checks that all processors but one have a turn, that work beyond that waits, that
// short texts do not, and that a turn ends when its work fails.
func TestTurns(t *testing.T) {
	t.Parallel()
	turns := fairshare.NewTurns(0, time.Minute)
	who, failure := fairshare.User("1"), errors.New("the text is malformed")
	var nest func(depth int) error
	nest = func(depth int) error {
		if depth == 0 {
			return failure
		}
		return turns.Do(t.Context(), who, 1<<20, func() error { return nest(depth - 1) })
	}
	all := max(1, runtime.GOMAXPROCS(0)-1)
	for range 2 {
		if err := nest(all); !errors.Is(err, failure) {
			t.Errorf("%d turns at a time: %v", all, err)
		}
	}
	if err := nest(all + 1); !errors.Is(err, fault.Unavailable) {
		t.Errorf("one turn too many: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turns.Do(ended, who, 100, func() error { return nil }); err != nil {
		t.Errorf("a short text waits: %v", err)
	}
}

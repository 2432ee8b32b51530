package builder

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestFailureOf(t *testing.T) {
	t.Parallel()
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	live := context.Background()
	for _, c := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // it is the case
		err  error
		want Reason
	}{
		{"typed", live, fmt.Errorf("so: %w", &Failure{Reason: Push}), Push},
		{"plain", live, errors.New("x"), Internal},
		{"cancelled", ended(errCancelled), &Failure{Reason: Build}, Cancelled},
		{"over time", ended(errOverTime), errors.New("x"), Timeout},
		{"ended otherwise", ended(nil), &Failure{Reason: Build}, Build},
	} {
		if got := failureOf(c.ctx, c.err); got.Reason != c.want || got.Message == "" && c.want == Internal {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

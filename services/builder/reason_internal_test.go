package builder

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"slipway.dev/services/builder/jobs"
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
		want jobs.Reason
	}{
		{"typed", live, fmt.Errorf("so: %w", &jobs.Failure{Reason: jobs.Push}), jobs.Push},
		{"plain", live, errors.New("x"), jobs.Internal},
		{"cancelled", ended(errCancelled), &jobs.Failure{Reason: jobs.Build}, jobs.Cancelled},
		{"over time", ended(errOverTime), errors.New("x"), jobs.Timeout},
		{"ended otherwise", ended(nil), &jobs.Failure{Reason: jobs.Build}, jobs.Build},
	} {
		if got := failureOf(c.ctx, c.err); got.Reason != c.want || got.Message == "" && c.want == jobs.Internal {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

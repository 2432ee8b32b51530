// Package retry waits between attempts.
package retry

import (
	"context"
	"time"
)

// Sleep waits; false when ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Forever calls do until ctx ends, each time a second after it returned. An error goes
// to failed, unless ctx has ended.
func Forever(ctx context.Context, do func(context.Context) error, failed func(error)) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		Sleep(ctx, time.Second)
	}
}

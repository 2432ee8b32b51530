// Package retry provides waiting and retry loops that end with a context.
package retry

import (
	"context"
	"time"
)

// Sleep waits for d. It returns false immediately if ctx is done before.
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

// Forever calls do repeatedly until ctx is done, with a pause of one second between calls. It
// passes errors to failed, except after ctx is done.
func Forever(ctx context.Context, do func(context.Context) error, failed func(error)) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		Sleep(ctx, time.Second)
	}
}

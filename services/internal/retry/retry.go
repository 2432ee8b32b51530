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
// reports errors to the outage. do reports successes.
func Forever(ctx context.Context, outage *Outage, do func(context.Context) error) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil {
			outage.Failed(ctx, err)
		}
		Sleep(ctx, time.Second)
	}
}

package inspect

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// TestTurns: a client has few layers read at a time, a process a few more, and whoever
// comes later waits for a while.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newListings()
		var done []func()
		take := func(client string) {
			end, err := r.begin(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, end)
		}
		for range limits.ListedAtOnceClient {
			take("busy")
		}
		since := time.Now()
		if _, err := r.begin(t.Context(), "busy"); !errors.Is(err, fault.Exhausted) || time.Since(since) != limits.ListedWait {
			t.Errorf("one more of the client's: %v after %s", err, time.Since(since))
		}
		for i := range limits.ListedAtOnce - limits.ListedAtOnceClient {
			take(fmt.Sprint(i))
		}
		if _, err := r.begin(t.Context(), "another"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("one more of all: %v", err)
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := r.begin(ctx, "another"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that leaves: %v", err)
		}
		time.AfterFunc(limits.ListedWait/2, done[0])
		take("busy")
		for _, end := range done[1:] {
			end()
		}
		if len(r.clients) != 0 {
			t.Errorf("%d clients are still known", len(r.clients))
		}
	})
}

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

// TestToll: a layer costs what it is stored as or unpacks to, whichever is more.
func TestToll(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct{ stored, unpacked, has, spent int64 }{
		{1, 99 * mib, 10, 0}, {1, 100 * mib, 10, 1}, {1, 1000 * mib, 10, 10}, {1, 1000 * mib, 3, 3},
		{250 * mib, 100 * mib, 10, 2}, {250 * mib, 299 * mib, 10, 2}, {250 * mib, 500 * mib, 10, 5}, {250 * mib, 0, 1, 0},
	} {
		var spent int64
		price := &toll{charge: func(pulls int) error {
			if spent+int64(pulls) > c.has {
				return fault.Exhausted.Newf("no more")
			}
			spent += int64(pulls)
			return nil
		}}
		err := price.stored(c.stored)
		for n := int64(0); n < c.unpacked && err == nil; n += mib {
			err = price.unpacked(mib)
		}
		want := max(c.stored, c.unpacked) / (100 * mib)
		if spent != c.spent || (err != nil) != (want > c.has) {
			t.Errorf("%+v: %d are spent, %v", c, spent, err)
		}
	}
}

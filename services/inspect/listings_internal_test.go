package inspect

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/bubble"
)

// TestConcurrencyPerClient checks that a client has a few layers read concurrently and waits for
// the next one, while layers of other clients are read.
func TestConcurrencyPerClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newListings()
		read := func(user string) (*fairshare.Lease, error) {
			return r.pool.Acquire(t.Context(), fairshare.Request{Client: fairshare.User(user), Class: fairshare.Long})
		}
		for range limits.ListedAtOnceClient {
			turn, err := read("busy")
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(2*limits.ListedWait, turn.Release)
		}
		start := time.Now()
		if _, err := read("busy"); !errors.Is(err, fault.Unavailable) || time.Since(start) != limits.ListedWait {
			t.Errorf("one more of the same client: %v after %s", err, time.Since(start))
		}
		start = time.Now()
		if _, err := read("other"); err != nil || time.Since(start) != 0 {
			t.Errorf("another client: %v after %s", err, time.Since(start))
		}
		bubble.Elapse(limits.ListedWait / 2)
		if _, err := read("busy"); err != nil {
			t.Errorf("after a release: %v", err)
		}
		bubble.Elapse(limits.ListedWait)
	})
}

// TestLayerCharge checks that a layer is charged for its compressed or its unpacked size,
// whichever is larger.
func TestLayerCharge(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct{ stored, unpacked, has, spent int64 }{
		{1, 99 * mib, 10, 0}, {1, 100 * mib, 10, 1}, {1, 1000 * mib, 10, 10}, {1, 1000 * mib, 3, 3},
		{250 * mib, 100 * mib, 10, 2}, {250 * mib, 299 * mib, 10, 2}, {250 * mib, 500 * mib, 10, 5}, {250 * mib, 0, 1, 0},
	} {
		var spent int64
		cost := &layerCharge{charge: func(pulls int) error {
			if spent+int64(pulls) > c.has {
				return fault.Exhausted.Newf("no more")
			}
			spent += int64(pulls)
			return nil
		}}
		err := cost.chargeStored(c.stored)
		for n := int64(0); n < c.unpacked && err == nil; n += mib {
			err = cost.chargeUnpacked(mib)
		}
		want := max(c.stored, c.unpacked) / (100 * mib)
		if spent != c.spent || (err != nil) != (want > c.has) {
			t.Errorf("%+v: charged %d pulls, %v", c, spent, err)
		}
	}
}

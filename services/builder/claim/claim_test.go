package claim_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/builder/claim"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// worker has its own clock, which the test controls.
type worker struct {
	*claim.Claims
	waits chan time.Duration
	come  map[time.Duration]chan time.Time
}

func newWorker(t *testing.T, nc *nats.Conn, service *jobstest.BuildService, name string) *worker {
	t.Helper()
	c, err := claim.New(claim.Options{NATS: nc, Work: service.Client, Worker: name, Log: testkit.Log(t), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{Claims: c, waits: make(chan time.Duration, 1000), come: map[time.Duration]chan time.Time{}}
	for _, d := range []time.Duration{limits.LayerSilence, limits.LayerSilence / 4, limits.LayerWait} {
		w.come[d] = make(chan time.Time)
	}
	c.After = func(d time.Duration) <-chan time.Time {
		w.waits <- d
		return w.come[d]
	}
	return w
}

// until returns when the worker waits for this duration for the nth time.
func (w *worker) until(d time.Duration, n int) {
	for n > 0 {
		if <-w.waits == d {
			n--
		}
	}
}

// pair returns two workers of one deployment.
func pair(t *testing.T, nc *nats.Conn) (a, b *worker) {
	t.Helper()
	service := jobstest.NewBuildService(t)
	return newWorker(t, nc, service, "a"), newWorker(t, nc, service, "b")
}

func all([]byte, string) bool  { return true }
func none([]byte, string) bool { return false }

// TestAcquire tests the life of a claim.
func TestAcquire(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	a, b := pair(t, nc)
	first, found, err := a.Acquire(ctx, "k", false, all)
	if first == nil || found || err != nil {
		t.Fatalf("the first gets %v, %v, %v", first, found, err)
	}
	if c, found, err := b.Acquire(ctx, "k", false, all); c != nil || found || err != nil {
		t.Errorf("while it is held another gets %v, %v, %v", c, found, err)
	}
	first.Release()
	first.Keep([]byte("too late"))
	second, _, err := b.Acquire(ctx, "k", false, all)
	if second == nil || err != nil {
		t.Fatalf("after a release another gets %v, %v", second, err)
	}
	second.Keep([]byte("record"))
	second.Release()
	var got string
	if c, found, err := a.Acquire(ctx, "k", false, func(r []byte, _ string) bool { got = string(r); return true }); c != nil || !found || err != nil || got != "record" {
		t.Errorf("what was kept is %q: %v, %v, %v", got, c, found, err)
	}
	third, found, err := a.Acquire(ctx, "k", true, none)
	if third == nil || found || err != nil {
		t.Fatalf("with a record that is of no use it is %v, %v, %v", third, found, err)
	}
	third.Release()
}

// TestAcquireWaits checks that a waiting call returns when a record is stored, when the claim
// is released, and when its own context ends.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	nc := jobstest.WithClaims(t, testkit.NATS(t))
	a, b := pair(t, nc)
	for _, c := range []struct {
		name                 string
		end                  func(hold layering.Claim, cancel func())
		claims, found, fails bool
	}{
		{name: "kept", found: true, end: func(h layering.Claim, _ func()) {
			h.Keep([]byte("r"))
		}},
		{name: "released", claims: true, end: func(h layering.Claim, _ func()) {
			h.Release()
		}},
		{name: "cancelled", fails: true, end: func(_ layering.Claim, cancel func()) {
			cancel()
		}},
	} {
		hold, _, err := a.Acquire(t.Context(), c.name, false, all)
		if hold == nil || err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		waiter.Go(func() {
			got, found, err := b.Acquire(ctx, c.name, true, all)
			if (got != nil) != c.claims || found != c.found || (err != nil) != c.fails {
				t.Errorf("%s: %v, %v, %v", c.name, got, found, err)
			}
			if got != nil {
				got.Release()
			}
		})
		b.until(limits.LayerSilence, 2) // b has received a renewal
		c.end(hold, cancel)
		waiter.Wait()
		cancel()
		hold.Release()
	}
}

// TestSilence checks that a claim is respected while its holder renews it. After a silence
// another worker takes the claim, and later writes of the first holder have no effect.
func TestSilence(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	a, b := pair(t, nc)
	dead, _, err := a.Acquire(ctx, "k", false, all)
	if dead == nil || err != nil {
		t.Fatal(err)
	}
	taken := make(chan layering.Claim)
	go func() {
		c, found, err := b.Acquire(ctx, "k", true, all)
		if found || err != nil {
			t.Errorf("it is %v, %v", found, err)
		}
		taken <- c
	}()
	b.until(limits.LayerSilence, 2)
	a.come[limits.LayerSilence/4] <- time.Time{} // a renews its claim
	b.until(limits.LayerSilence, 1)              // b has received the renewal
	b.come[limits.LayerSilence] <- time.Time{}
	mine := <-taken
	if mine == nil {
		t.Fatal("the claim of the silent one was not taken")
	}
	dead.Keep([]byte("of the dead"))
	if c, found, _ := a.Acquire(ctx, "k", false, all); c != nil || found {
		t.Errorf("what the silent one says counts: %v, %v", c, found)
	}
	mine.Keep([]byte("mine"))
	if _, found, err := a.Acquire(ctx, "k", false, all); !found || err != nil {
		t.Errorf("what was made instead is %v, %v", found, err)
	}
}

// TestLate checks that a holder which renews its claim forever does not block others
// forever.
func TestLate(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	a, b := pair(t, nc)
	hold, _, err := a.Acquire(ctx, "k", false, all)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	ended := make(chan error)
	go func() {
		_, _, err := b.Acquire(ctx, "k", true, all)
		ended <- err
	}()
	b.come[limits.LayerWait] <- time.Time{}
	if <-ended == nil {
		t.Error("it would wait on")
	}
}

// TestNote checks that noted layers are found by other workers, whether or not another
// worker is building them, and that each is written once.
func TestNote(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	a, b := pair(t, nc)
	said := 0
	note := func(name string) {
		a.Note(ctx, name, func() ([]byte, error) { said++; return []byte("of a"), nil })
		// A stream keeps messages in order and acknowledges this one.
		if _, err := js.Publish(ctx, buildbus.Claim("after-"+name), nil); err != nil {
			t.Fatal(err)
		}
	}
	found := func(name string) {
		t.Helper()
		if c, found, err := b.Acquire(ctx, name, false, func(r []byte, _ string) bool { return string(r) == "of a" }); c != nil || !found || err != nil {
			t.Errorf("%s: %v, %v, %v", name, c, found, err)
		}
	}
	note("new")
	found("new")
	note("new")
	hold, _, err := b.Acquire(ctx, "made", false, all)
	if err != nil {
		t.Fatal(err)
	}
	note("made")
	found("made")
	hold.Keep([]byte("of b"))
	found("made")
	own, _, err := a.Acquire(ctx, "own", false, all)
	if err != nil {
		t.Fatal(err)
	}
	own.Keep([]byte("of a"))
	note("own")
	found("own")
	if said != 2 {
		t.Errorf("it spoke %d times", said)
	}
	a.Note(ctx, "lost", func() ([]byte, error) { return nil, errors.New("no such layer") })
	if c, found, err := b.Acquire(ctx, "lost", false, all); c == nil || found || err != nil {
		t.Errorf("of what is not there it is %v, %v, %v", c, found, err)
	}
}

// TestNoBucket checks that calls without the bucket return an error.
func TestNoBucket(t *testing.T) {
	t.Parallel()
	if c, found, err := newWorker(t, testkit.NATS(t), jobstest.NewBuildService(t), "a").Acquire(t.Context(), "k", true, all); c != nil || found || err == nil {
		t.Errorf("it is %v, %v, %v", c, found, err)
	}
}

// TestUnregistered checks that a worker whose key the build service refuses neither claims
// a layer nor stores a record.
func TestUnregistered(t *testing.T) {
	t.Parallel()
	nc, ctx, service := jobstest.WithClaims(t, testkit.NATS(t)), t.Context(), jobstest.NewBuildService(t)
	a, b := newWorker(t, nc, service, "a"), newWorker(t, nc, service, "b")
	hold, _, err := a.Acquire(ctx, "k", false, all)
	if err != nil {
		t.Fatal(err)
	}
	service.Revoke("a")
	hold.Keep([]byte("record"))
	if c, found, err := b.Acquire(ctx, "k", false, all); c == nil || found || err != nil {
		t.Errorf("the record of a revoked key is used: %v, %v, %v", c, found, err)
	}
	again := newWorker(t, nc, service, "c")
	service.Refuse = true
	if c, found, err := again.Acquire(ctx, "other", false, all); c != nil || found || err == nil {
		t.Errorf("without a key a worker gets %v, %v, %v", c, found, err)
	}
	again.Note(ctx, "other", func() ([]byte, error) { return []byte("record"), nil })
	if c, found, err := b.Acquire(ctx, "other", false, all); c == nil || found || err != nil {
		t.Errorf("a record without a key is used: %v, %v, %v", c, found, err)
	}
}

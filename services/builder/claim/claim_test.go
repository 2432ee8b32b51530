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
	"slipway.dev/services/builder/layering"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// worker has a clock of its own: what it waits for comes when a test says so.
type worker struct {
	*claim.Claims
	waits chan time.Duration
	come  map[time.Duration]chan time.Time
}

func newWorker(t *testing.T, nc *nats.Conn) *worker {
	t.Helper()
	c, err := claim.New(nc, testkit.Log(t))
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

// until goes on when the worker begins to wait so long, for the nth time.
func (w *worker) until(d time.Duration, n int) {
	for n > 0 {
		if <-w.waits == d {
			n--
		}
	}
}

func all([]byte) bool  { return true }
func none([]byte) bool { return false }

// TestTake goes through the life of a claim.
func TestTake(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	a, b := newWorker(t, nc), newWorker(t, nc)
	first, found, err := a.Take(ctx, "k", false, all)
	if first == nil || found || err != nil {
		t.Fatalf("the first gets %v, %v, %v", first, found, err)
	}
	if c, found, err := b.Take(ctx, "k", false, all); c != nil || found || err != nil {
		t.Errorf("while it is held another gets %v, %v, %v", c, found, err)
	}
	first.Release()
	first.Keep([]byte("too late"))
	second, _, err := b.Take(ctx, "k", false, all)
	if second == nil || err != nil {
		t.Fatalf("after a release another gets %v, %v", second, err)
	}
	second.Keep([]byte("record"))
	second.Release()
	var got string
	if c, found, err := a.Take(ctx, "k", false, func(r []byte) bool { got = string(r); return true }); c != nil || !found || err != nil || got != "record" {
		t.Errorf("what was kept is %q: %v, %v, %v", got, c, found, err)
	}
	third, found, err := a.Take(ctx, "k", true, none)
	if third == nil || found || err != nil {
		t.Fatalf("with a record that is of no use it is %v, %v, %v", third, found, err)
	}
	third.Release()
}

// TestTakeWaits: who waits hears of what was made, of a release, and of its own end.
func TestTakeWaits(t *testing.T) {
	t.Parallel()
	nc := jobstest.WithClaims(t, testkit.NATS(t))
	a, b := newWorker(t, nc), newWorker(t, nc)
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
		hold, _, err := a.Take(t.Context(), c.name, false, all)
		if hold == nil || err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		waiter.Go(func() {
			got, found, err := b.Take(ctx, c.name, true, all)
			if (got != nil) != c.claims || found != c.found || (err != nil) != c.fails {
				t.Errorf("%s: %v, %v, %v", c.name, got, found, err)
			}
			if got != nil {
				got.Release()
			}
		})
		b.until(limits.LayerSilence, 2) // it has heard of the holder
		c.end(hold, cancel)
		waiter.Wait()
		cancel()
		hold.Release()
	}
}

// TestSilence: a holder that speaks is waited for; from one that is silent the claim is
// taken, and what it says later does not count.
func TestSilence(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	a, b := newWorker(t, nc), newWorker(t, nc)
	dead, _, err := a.Take(ctx, "k", false, all)
	if dead == nil || err != nil {
		t.Fatal(err)
	}
	taken := make(chan layering.Claim)
	go func() {
		c, found, err := b.Take(ctx, "k", true, all)
		if found || err != nil {
			t.Errorf("it is %v, %v", found, err)
		}
		taken <- c
	}()
	b.until(limits.LayerSilence, 2)
	a.come[limits.LayerSilence/4] <- time.Time{} // it speaks
	b.until(limits.LayerSilence, 1)              // and is heard
	b.come[limits.LayerSilence] <- time.Time{}
	mine := <-taken
	if mine == nil {
		t.Fatal("the claim of the silent one was not taken")
	}
	dead.Keep([]byte("of the dead"))
	if c, found, _ := a.Take(ctx, "k", false, all); c != nil || found {
		t.Errorf("what the silent one says counts: %v, %v", c, found)
	}
	mine.Keep([]byte("mine"))
	if _, found, err := a.Take(ctx, "k", false, all); !found || err != nil {
		t.Errorf("what was made instead is %v, %v", found, err)
	}
}

// TestLate: a holder that speaks for ever holds nobody up for ever.
func TestLate(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	a, b := newWorker(t, nc), newWorker(t, nc)
	hold, _, err := a.Take(ctx, "k", false, all)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	ended := make(chan error)
	go func() {
		_, _, err := b.Take(ctx, "k", true, all)
		ended <- err
	}()
	b.come[limits.LayerWait] <- time.Time{}
	if <-ended == nil {
		t.Error("it would wait on")
	}
}

// TestNote: what a worker has, others find, whether or not one of them makes it; it is said
// once.
func TestNote(t *testing.T) {
	t.Parallel()
	nc, ctx := jobstest.WithClaims(t, testkit.NATS(t)), t.Context()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newWorker(t, nc), newWorker(t, nc)
	said := 0
	note := func(name string) {
		a.Note(name, func() ([]byte, error) { said++; return []byte("of a"), nil })
		// A stream keeps messages in order, and acknowledges this one.
		if _, err := js.Publish(ctx, buildbus.Claim("after-"+name), nil); err != nil {
			t.Fatal(err)
		}
	}
	found := func(name string) {
		t.Helper()
		if c, found, err := b.Take(ctx, name, false, func(r []byte) bool { return string(r) == "of a" }); c != nil || !found || err != nil {
			t.Errorf("%s: %v, %v, %v", name, c, found, err)
		}
	}
	note("new")
	found("new")
	note("new")
	hold, _, err := b.Take(ctx, "made", false, all)
	if err != nil {
		t.Fatal(err)
	}
	note("made")
	found("made")
	hold.Keep([]byte("of b"))
	found("made")
	own, _, err := a.Take(ctx, "own", false, all)
	if err != nil {
		t.Fatal(err)
	}
	own.Keep([]byte("of a"))
	note("own")
	found("own")
	if said != 2 {
		t.Errorf("it spoke %d times", said)
	}
	a.Note("lost", func() ([]byte, error) { return nil, errors.New("no such layer") })
	if c, found, err := b.Take(ctx, "lost", false, all); c == nil || found || err != nil {
		t.Errorf("of what is not there it is %v, %v, %v", c, found, err)
	}
}

// TestNoBucket: without the bucket, nobody can say.
func TestNoBucket(t *testing.T) {
	t.Parallel()
	if c, found, err := newWorker(t, testkit.NATS(t)).Take(t.Context(), "k", true, all); c != nil || found || err == nil {
		t.Errorf("it is %v, %v, %v", c, found, err)
	}
}

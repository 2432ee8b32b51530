package fairshare_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit/bubble"
)

func TestWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, fairshare.Config{Capacity: 1, MaxWaiting: 30, MaxWaitingPerClient: 2, MaxWait: 10 * time.Second}, func(b *bench) {
		refused := func(ctx context.Context, c fairshare.Client, want error, after time.Duration) {
			t.Helper()
			start := time.Now()
			_, err := b.Acquire(ctx, request(c))
			if !errors.Is(err, want) || time.Since(start) != after {
				t.Errorf("%v after %s, want %v after %s", err, time.Since(start), want, after)
			}
			if e, ok := fault.As(err); ok && e.RetryAfter == 0 {
				t.Errorf("%v has no RetryAfter", err)
			}
		}
		eve := address("192.0.2.1")
		first := b.take(request(eve))
		refused(b.Context(), eve, fault.Unavailable, 10*time.Second)
		short, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		refused(short, eve, fault.Unavailable, time.Second)
		gone, cancel := context.WithCancel(b.Context())
		time.AfterFunc(time.Second, cancel)
		refused(gone, eve, context.Canceled, time.Second)

		b.queue("1", request(eve))
		b.queue("2", request(eve))
		refused(b.Context(), eve, fault.Exhausted, 0)
		for i := range 30 { // as many as the network may
			b.queue("", request(address(fmt.Sprintf("192.0.2.%d", 10+i))))
		}
		refused(b.Context(), address("192.0.2.200"), fault.Unavailable, 0)
		refused(b.Context(), address("198.51.100.1"), fault.Unavailable, 10*time.Second)
		first.Release()
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		config fairshare.Config
		form   string // of addresses; "" is users
		one    bool   // one client
		want   int
	}{
		{"one client", fairshare.Config{Capacity: 100, PerClient: 5}, "192.0.2.%d", true, 5},
		{"one user", fairshare.Config{Capacity: 100, PerClient: 5, Reserved: 10}, "", true, 5},
		{"a /56 as two clients", fairshare.Config{Capacity: 100, PerClient: 5}, "2001:db8:0:ff%02x::1", false, 10},
		{"a /48 as four", fairshare.Config{Capacity: 100, PerClient: 5}, "2001:db8:0:%02x00::1", false, 20},
		{"one network leaves a third", fairshare.Config{Capacity: 99}, "192.0.2.%d", false, 66},
		{"one network leaves a third of the part of strangers", fairshare.Config{Capacity: 109, Reserved: 10}, "192.0.2.%d", false, 66},
		{"several networks use up the pool", fairshare.Config{Capacity: 99}, "192.0.%d.1", false, 99},
		{"the reserved part is for users", fairshare.Config{Capacity: 99, Reserved: 33}, "192.0.%d.1", false, 66},
		{"users may have all", fairshare.Config{Capacity: 99, Reserved: 33}, "", false, 99},
		{"small pools are used up", fairshare.Config{Capacity: 2}, "192.0.2.%d", false, 2},
		{"no limit", fairshare.Config{}, "192.0.2.%d", true, 200},
	} {
		p := fairshare.New(tc.config)
		n := 0
		for i := range 200 {
			if tc.one {
				i = 0
			}
			c := fairshare.User(fmt.Sprint(i))
			if tc.form != "" {
				c = address(fmt.Sprintf(tc.form, i))
			}
			if _, err := p.TryAcquire(request(c)); err == nil {
				n++
			} else if tc.one != errors.Is(err, fault.Exhausted) {
				t.Errorf("%s: %v", tc.name, err)
				break
			}
		}
		if n != tc.want {
			t.Errorf("%s: %d leases, want %d", tc.name, n, tc.want)
		}
	}
}

// TestLargeRequest checks that small requests do not starve an earlier large one, and that
// they wait no longer than it does.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, fairshare.Config{Capacity: 10, MaxWaiting: 100, MaxWait: 10 * time.Second}, func(b *bench) {
		ada, bob := fairshare.User("ada"), fairshare.User("bob")
		first := b.take(fairshare.Request{Client: ada, Amount: 5})
		b.queue("large", fairshare.Request{Client: bob, Amount: 8})
		b.queue("small", fairshare.Request{Client: ada, Amount: 3})
		if len(b.served) > 0 {
			t.Error("a small request passes a large one")
		}
		if got := b.drain(first, 0); got != "large small" {
			t.Errorf("served %s", got)
		}
		if _, err := b.Acquire(b.Context(), fairshare.Request{Client: ada, Amount: 11}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("a request that never fits: %v", err)
		}
	})
	inBubble(t, fairshare.Config{Capacity: 10, MaxWaiting: 100, MaxWait: 10 * time.Second}, func(b *bench) {
		defer b.take(fairshare.Request{Client: fairshare.User("ada"), Amount: 5}).Release()
		b.queue("large", fairshare.Request{Client: fairshare.User("bob"), Amount: 8})
		bubble.Elapse(time.Second)
		b.queue("small", request(fairshare.User("ada")))
		bubble.Elapse(10 * time.Second)
		synctest.Wait()
		if strings.Join(b.served, " ") != "small" {
			t.Errorf("served %v", b.served)
		}
	})
}

func TestGrow(t *testing.T) {
	t.Parallel()
	inBubble(t, fairshare.Config{Capacity: 10, PerClient: 8, MaxWaiting: 10, MaxWait: time.Second}, func(b *bench) {
		ada, bob := b.take(request(fairshare.User("ada"))), b.take(fairshare.Request{Client: fairshare.User("bob"), Amount: 5})
		if err := ada.Grow(b.Context(), 4); err != nil {
			t.Error(err)
		}
		if err := ada.Grow(b.Context(), 1); !errors.Is(err, fault.Unavailable) {
			t.Errorf("the pool is used up: %v", err)
		}
		if err := ada.Grow(b.Context(), 4); !errors.Is(err, fault.Exhausted) {
			t.Errorf("a client has a limit: %v", err)
		}
		time.AfterFunc(time.Second/2, bob.Release)
		if err := ada.Grow(b.Context(), 3); err != nil {
			t.Error(err)
		}
		bob.Release()
		ada.Release()
		if err := ada.Grow(b.Context(), 1); err == nil {
			t.Error("a lease that was released grows")
		}
		b.take(fairshare.Request{Client: fairshare.User("eve"), Amount: 8})
		b.take(fairshare.Request{Client: fairshare.User("mallory"), Amount: 2})
	})
}

// TestContext checks that work ends early for a client that has precedence, and not for one
// with a larger share or at its own limit.
func TestContext(t *testing.T) {
	t.Parallel()
	eve, mallory := address("192.0.2.1"), address("198.51.100.1")
	for _, tc := range []struct {
		name  string
		holds int64 // places of mallory, in addition to eve's one
		waits fairshare.Request
		want  error
	}{
		{"a client with a smaller share", 0, request(mallory), fairshare.ErrContended},
		{"a client with a larger share", 3, request(mallory), nil},
		{"a user", 3, request(fairshare.User("ada")), fairshare.ErrContended},
		{"the same client", 3, request(eve), nil},
		{"a later class", 0, fairshare.Request{Client: mallory, Class: fairshare.Background}, nil},
	} {
		inBubble(t, fairshare.Config{Capacity: 4, MaxWaiting: 10}, func(b *bench) {
			l := b.take(request(eve))
			if tc.holds > 0 {
				defer b.take(fairshare.Request{Client: mallory, Amount: 2}).Release()
			}
			defer b.take(fairshare.Request{Client: fairshare.User("bob"), Amount: 3 - min(tc.holds, 2)}).Release()
			ctx, cancel := l.Context(b.Context(), 5*time.Second)
			defer cancel()
			b.queue("", tc.waits)
			bubble.Elapse(4 * time.Second)
			if ctx.Err() != nil {
				t.Errorf("%s: it ended after 4s", tc.name)
			}
			bubble.Elapse(2 * time.Second)
			synctest.Wait()
			if got := context.Cause(ctx); !errors.Is(got, tc.want) {
				t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
			}
			l.Release()
		})
	}
}

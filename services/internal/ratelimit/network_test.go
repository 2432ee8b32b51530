package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

// in returns the caller of a /64, by the numbers of its /48, of the /56 in that, and of the
// /64 in that.
func in(site, household, subnet int) string {
	return fairshare.Address(netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%02x%02x::1", site, household, subnet))).String()
}

// counts charges one after another until all are rejected, and returns how many were not.
func counts(t *testing.T, l *ratelimit.Limiter, limit ratelimit.Limit, callers ...string) int {
	t.Helper()
	allowed := 0
	for _, c := range callers {
		for {
			_, err := l.Charge(t.Context(), "pulls", c, limit, 1)
			if errors.Is(err, fault.Exhausted) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			allowed++
		}
	}
	return allowed
}

// TestAttackManyNetworks charges from all /64 of a network. A /56 has twice, and a /48 four
// times the limit of one client; other networks, and IPv4 addresses, have their own.
func TestAttackManyNetworks(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for _, limit := range []ratelimit.Limit{{{Count: 5, Window: time.Hour}, {Count: 100, Window: 2 * time.Hour}}, {{Count: 300, Window: time.Hour}}} {
			name := fmt.Sprint(limit)
			l, n := newLimiter(t, client), limit[0].Count
			household := make([]string, 0, 10)
			for i := range 10 {
				household = append(household, in(n, 1, i))
			}
			if got := counts(t, l, limit, household[0]); got != n {
				t.Errorf("%s: one /64 has %d", name, got)
			}
			if got := counts(t, l, limit, household...); got != n {
				t.Errorf("%s: its /56 has %d more", name, got)
			}
			_, err := l.Charge(t.Context(), "pulls", household[5], limit, 1)
			if want := fmt.Sprintf("for the network 2001:db8:%x:100::/56 is %d in 1h", n, 2*n); !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "again") {
				t.Errorf("%s: the error is %v, want %q", name, err, want)
			}
			site := make([]string, 0, 8)
			for i := range 8 {
				site = append(site, in(n, 2+i, 0))
			}
			if got := counts(t, l, limit, site...); got != 2*n {
				t.Errorf("%s: its /48 has %d more", name, got)
			}
			if got := counts(t, l, limit, in(n+1, 0, 0)); got != n {
				t.Errorf("%s: another /48 has %d", name, got)
			}
			if got := counts(t, l, limit, fmt.Sprintf("ip:192.0.2.%d", n%250), fmt.Sprintf("ip:192.0.2.%d", n%250+1)); got != 2*n {
				t.Errorf("%s: two IPv4 addresses have %d", name, got)
			}
			// A refund applies to all levels.
			if _, err := l.Charge(t.Context(), "pulls", household[0], limit, -1); err != nil {
				t.Fatal(err)
			}
			if got := counts(t, l, limit, household...); got != 1 {
				t.Errorf("%s: after a refund %d are allowed", name, got)
			}
		}
	})
}

// TestSlicesOfNetworksAreGivenBack checks that the charges that two clients of a network hold
// in memory are returned to the network.
func TestSlicesOfNetworksAreGivenBack(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		limit := ratelimit.Limit{{Count: 1000, Window: time.Hour}}
		one := newLimiter(t, client)
		spent := 0
		for range 40 {
			for _, c := range []string{in(1, 1, 1), in(1, 1, 2)} {
				if _, err := one.Charge(t.Context(), "pulls", c, limit, 1); err != nil {
					t.Fatal(err)
				}
				spent++
			}
		}
		if held, _ := one.Held(); held == 0 {
			t.Fatal("nothing is held in memory")
		}
		one.Close()
		if got := counts(t, newLimiter(t, client), limit, in(1, 1, 3), in(1, 1, 4)); got != 2000-spent {
			t.Errorf("the /56 has %d more after %d", got, spent)
		}
	})
}

// TestOneTripForNetworks checks that a charge against three levels is one command.
func TestOneTripForNetworks(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		var commands atomic.Int32
		l := newLimiter(t, client)
		charge := func(subnet int) {
			if _, err := l.Charge(t.Context(), "pulls", in(2, 2, subnet), hourly, 1); err != nil {
				t.Fatal(err)
			}
		}
		charge(1) // loads the script
		client.AddHook(counter{&commands})
		charge(2)
		if n := commands.Load(); n != 1 {
			t.Errorf("a charge takes %d commands", n)
		}
	})
}

// counter counts commands.
type counter struct{ n *atomic.Int32 }

func (c counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		c.n.Add(int32(len(all)))
		return next(ctx, all)
	}
}

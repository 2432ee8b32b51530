package fairshare_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/testkit/bubble"
)

func address(text string) fairshare.Client { return fairshare.Address(netip.MustParseAddr(text)) }

func request(c fairshare.Client) fairshare.Request { return fairshare.Request{Client: c} }

// bench is a pool, and the names of requests in the order in which they were served.
type bench struct {
	*testing.T
	*fairshare.Pool
	mu     sync.Mutex
	served []string
	leases map[string]*fairshare.Lease
}

func inBubble(t *testing.T, c fairshare.Config, f func(b *bench)) {
	t.Helper()
	c.Name = "things"
	synctest.Test(t, func(t *testing.T) {
		f(&bench{T: t, Pool: fairshare.New(c), leases: map[string]*fairshare.Lease{}})
	})
}

// take acquires a lease that must be free.
func (b *bench) take(r fairshare.Request) *fairshare.Lease {
	b.Helper()
	l, err := b.TryAcquire(r)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// queue starts a request and lets it wait.
func (b *bench) queue(name string, r fairshare.Request) {
	go func() {
		l, err := b.Acquire(context.Background(), r)
		if err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.served = append(b.served, name)
		b.leases[name] = l
	}()
	synctest.Wait()
}

// drain releases the lease that was served last until no request waits, and returns the order.
// The argument each is the duration of a lease.
func (b *bench) drain(first *fairshare.Lease, each time.Duration) string {
	first.Release()
	for i := 0; ; i++ {
		synctest.Wait()
		if i == len(b.served) {
			return strings.Join(b.served, " ")
		}
		bubble.Elapse(each)
		b.leases[b.served[i]].Release()
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	ada, eve := fairshare.User("ada"), address("192.0.2.1")
	for _, tc := range []struct {
		name string
		in   []fairshare.Request
		want string
	}{
		{"first come, first served", []fairshare.Request{request(eve), request(eve), request(eve)}, "0 1 2"},
		{"users first", []fairshare.Request{request(eve), request(ada)}, "1 0"},
		{"trusted content first", []fairshare.Request{{Client: eve, Untrusted: true}, request(eve)}, "1 0"},
		{"short before long before background", []fairshare.Request{{Client: eve, Class: fairshare.Background}, {Client: eve, Class: fairshare.Long}, request(eve)}, "2 1 0"},
		{"a user's background before a stranger's short", []fairshare.Request{request(eve), {Client: ada, Class: fairshare.Background}}, "1 0"},
		{"clients take turns", []fairshare.Request{request(eve), request(eve), request(address("198.51.100.1")), request(eve)}, "0 2 1 3"},
		{"users take turns", []fairshare.Request{request(ada), request(ada), request(fairshare.User("bob")), request(ada)}, "0 2 1 3"},
		{"addresses of one network share its turns", []fairshare.Request{
			request(address("192.0.2.1")), request(address("192.0.2.2")), request(address("198.51.100.1")), request(address("192.0.2.3")), request(address("198.51.100.1")),
		}, "0 2 1 4 3"},
		{"addresses take turns within their network", []fairshare.Request{
			request(address("192.0.2.1")), request(address("192.0.2.1")), request(address("192.0.2.2")),
		}, "0 2 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, fairshare.Config{Capacity: 1, MaxWaiting: 100}, func(b *bench) {
				first := b.take(request(fairshare.Client{}))
				for i, r := range tc.in {
					b.queue(fmt.Sprint(i), r)
				}
				if got := b.drain(first, time.Second); got != tc.want {
					t.Errorf("served %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestNetworksShare checks that all /64 of a /56 together get as much as any other address,
// and all /56 of a /48.
func TestNetworksShare(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"2001:db8:0:ff%02x::1", "2001:db8:0:%02xff::1"} {
		inBubble(t, fairshare.Config{Capacity: 1, MaxWaiting: 1000}, func(b *bench) {
			first := b.take(request(fairshare.Client{}))
			for i := range 256 {
				b.queue("many", request(address(fmt.Sprintf(form, i))))
			}
			for range 10 {
				b.queue("one", request(address("2001:db8:1::1")))
			}
			order := b.drain(first, time.Second)
			if want := strings.TrimSpace(strings.Repeat("many one ", 10)); !strings.HasPrefix(order, want) {
				t.Errorf("%s: served %.200s…", form, order)
			}
		})
	}
}

// TestUsageCounts checks that a client that held much recently waits for one that held
// less, although it holds nothing now, and that this effect decays.
func TestUsageCounts(t *testing.T) {
	t.Parallel()
	for idle, want := range map[time.Duration]string{0: "modest greedy", time.Hour: "greedy modest"} {
		inBubble(t, fairshare.Config{Capacity: 5, MaxWaiting: 10}, func(b *bench) {
			hold := func(c fairshare.Client, n int64) {
				l := b.take(fairshare.Request{Client: c, Amount: n})
				bubble.Elapse(time.Minute)
				l.Release()
			}
			greedy, modest := address("192.0.2.1"), address("198.51.100.1")
			hold(greedy, 5)
			bubble.Elapse(idle)
			hold(modest, 1)
			b.take(fairshare.Request{Client: fairshare.User("ada"), Amount: 4})
			last := b.take(request(fairshare.User("ada")))
			b.queue("greedy", request(greedy))
			b.queue("modest", request(modest))
			if got := b.drain(last, 0); got != want {
				t.Errorf("after %s: served %s, want %s", idle, got, want)
			}
		})
	}
}

// TestNothingStarves checks that while users send one request after the other, strangers get
// every eighth lease, and their background requests every eighth of these.
func TestNothingStarves(t *testing.T) {
	t.Parallel()
	inBubble(t, fairshare.Config{Capacity: 1, MaxWaiting: 1000}, func(b *bench) {
		first := b.take(request(fairshare.Client{}))
		b.queue("stranger", request(address("192.0.2.1")))
		b.queue("background", fairshare.Request{Client: fairshare.User("bob"), Class: fairshare.Background})
		for range 100 {
			b.queue("user", request(fairshare.User("ada")))
		}
		b.drain(first, 0)
		for _, name := range []string{"stranger", "background"} {
			at := 0
			for at < len(b.served) && b.served[at] != name {
				at++
			}
			if at > 9 || at < 6 {
				t.Errorf("the %s is served after %d others", name, at)
			}
		}
	})
}

// TestNoCapacityIsLost checks that for any concurrent calls and cancellations the limits
// are kept, and that everything is free in the end.
func TestNoCapacityIsLost(t *testing.T) {
	t.Parallel()
	const capacity, reserved, perClient = 20, 4, 6
	p := fairshare.New(fairshare.Config{Name: "things", Capacity: capacity, Reserved: reserved, PerClient: perClient, MaxWaiting: 50, MaxWait: 20 * time.Millisecond})
	var total, strangers atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 300 {
				c, stranger := fairshare.User(fmt.Sprint(i%5)), i%2 == 0
				if stranger {
					c = address(fmt.Sprintf("2001:db8:%x:%x::1", i%3, i))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
				n := 1 + random.Int64N(4)
				l, err := p.Acquire(ctx, fairshare.Request{Client: c, Amount: n, Class: fairshare.Class(random.IntN(3)), Untrusted: random.IntN(2) == 0})
				if err == nil {
					if random.IntN(2) == 0 && l.Grow(ctx, 1) == nil {
						n++
					}
					if total.Add(n) > capacity || stranger && strangers.Add(n) > capacity-reserved {
						t.Error("more is held than there is")
					}
					<-time.NewTimer(time.Duration(random.IntN(300)) * time.Microsecond).C
					if total.Add(-n); stranger {
						strangers.Add(-n)
					}
					l.Release()
					l.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	for i := range capacity / 5 {
		if _, err := p.TryAcquire(fairshare.Request{Client: fairshare.User(fmt.Sprint("last", i)), Amount: 5}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	one, two := fairshare.New(fairshare.Config{Name: "ones", Capacity: 1}), fairshare.New(fairshare.Config{Name: "twos"})
	reg.MustRegister(one, two)
	for range 2 {
		_, _ = one.TryAcquire(request(fairshare.Client{}))
	}
	const want = `
# HELP slipway_fairshare_held What clients hold of a pool (places or bytes).
# TYPE slipway_fairshare_held gauge
slipway_fairshare_held{pool="ones"} 1
slipway_fairshare_held{pool="twos"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "slipway_fairshare_held"); err != nil {
		t.Error(err)
	}
	n, err := testutil.GatherAndCount(reg, "slipway_fairshare_refused_total")
	if err != nil || n != 8 {
		t.Errorf("%d series of refusals, %v", n, err)
	}
}

func TestClientText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.1": "ip:192.0.2.1", "::ffff:192.0.2.1": "ip:192.0.2.1", "2001:db8::1:2:3:4": "ip:2001:db8::/64", "fe80::1%eth0": "ip:fe80::/64",
	} {
		if got := address(in).String(); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	got := []string{fairshare.User("7@p").String(), fairshare.Client{}.String()}
	if diff := cmp.Diff([]string{"user:7@p", "ip:invalid IP"}, got); diff != "" {
		t.Error(diff)
	}
}

package fairshare

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestRecordsAreBounded checks that the number of records is bounded for any number of
// addresses, and that the records with the most usage are kept.
func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	p := New(Config{Name: "things"})
	p.usage.path(User("busy"), 0)[0].average = 1
	for i := range 5 * maxRecords {
		l, err := p.TryAcquire(Request{Client: Address(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))})
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	if n := len(p.usage.records); n > maxRecords+1 {
		t.Errorf("%d records", n)
	}
	if p.usage.records[group{client: User("busy")}] == nil {
		t.Error("the busiest was forgotten")
	}
}

// FuzzPool checks after each step that sums are right, bounds hold, and no request waits that
// could be served.
func FuzzPool(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := New(Config{Name: "things", Capacity: 12, Reserved: 3, PerClient: 6, MaxWaiting: 20})
		var leases []*Lease
		for range 500 {
			if random.IntN(3) > 0 {
				c := User(fmt.Sprint(random.IntN(3)))
				if random.IntN(2) == 0 {
					c = Address(netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::1", random.IntN(2), random.IntN(600))))
				}
				p.mu.Lock()
				w := p.enqueue(Request{Client: c, Amount: random.Int64N(5), Class: Class(random.IntN(3))})
				p.dispatch()
				if !w.served && p.refuses(w) != nil {
					p.remove(w)
				}
				if l := p.lease(w); w.served {
					leases = append(leases, &l)
				}
				p.mu.Unlock()
			} else if len(leases) > 0 {
				i := random.IntN(len(leases))
				leases[i].Release()
				leases = append(leases[:i], leases[i+1:]...)
			} else if len(p.waiting) > 0 {
				p.remove(p.waiting[0])
				p.dispatch()
			}
			p.check(t)
			// A lease that was served by a release is unknown here: end it.
			for p.held > sum(leases) {
				p.endUnknown(leases)
			}
		}
	})
}

func sum(leases []*Lease) (n int64) {
	for _, l := range leases {
		n += l.amount
	}
	return n
}

// endUnknown releases what a record holds beyond the known leases.
func (p *Pool) endUnknown(known []*Lease) {
	for _, r := range p.usage.records {
		extra := r.held
		for _, l := range known {
			if l.path[len(l.path)-1] == r {
				extra -= l.amount
			}
		}
		if r.clients == 1 && extra > 0 {
			c := r.client
			if r.network.IsValid() {
				c = Address(r.network.Addr())
			}
			(&Lease{pool: p, path: p.usage.path(c, 0), stranger: c.IsAnonymous(), amount: extra}).Release()
			return
		}
	}
}

func (p *Pool) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var held, strangers int64
	for _, r := range p.usage.records {
		if r.held < 0 || r.waiting < 0 || r.clients > 0 && r.held > r.clients*p.config.PerClient {
			t.Fatalf("%v holds %d and waits for %d", r.group, r.held, r.waiting)
		}
		if r.clients == 1 {
			held += r.held
			if r.network.IsValid() {
				strangers += r.held
			}
		}
	}
	if held != p.held || strangers != p.heldByStrangers || held > p.config.Capacity || strangers > p.config.Capacity-p.config.Reserved {
		t.Fatalf("held are %d and %d, counted %d and %d", p.held, p.heldByStrangers, held, strangers)
	}
	if w, _ := p.pick(false); w != nil && w.amount <= p.free(w.stranger) {
		t.Fatalf("%d of %d are held, and a request for %d waits", p.held, p.config.Capacity, w.amount)
	}
}

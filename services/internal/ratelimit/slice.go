package ratelimit

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"slipway.dev/services/internal/limits"
)

// A slice is some of what a caller has left, counted in Redis at once and spent in
// memory. It is spent within the buckets that it is counted in, so the window is as
// exact as without it. What is not spent is given back; what a killed process held is
// lost to the caller until the window has passed. So nobody gets more than the limit.
const (
	// sliceHold is how long a slice is kept at most.
	sliceHold = time.Second
	// sliceCount and sliceWindow are the least rule that slices are taken of: shorter
	// buckets would be over at once, and small numbers are counted one by one.
	sliceCount  = 256
	sliceWindow = time.Minute
	// sliceMost is the largest slice that is asked for.
	sliceMost = 1024
)

// sliceable says whether slices may be taken of l.
func (l Limit) sliceable() bool {
	return !slices.ContainsFunc(l, func(r Rule) bool { return r.Count < sliceCount || r.Window < sliceWindow })
}

// account is what is charged: one limit of one caller.
type account struct{ name, caller string }

// stock is the slices that this process holds. Its clock is the time since it was made,
// which no jump of the wall clock moves. Safe for concurrent use.
type stock struct {
	replica string // unique among processes
	clock   func() time.Duration
	sweep   func()

	mu     sync.Mutex
	held   map[account]*slice
	number int         // of the last slice
	timer  *time.Timer // of the next sweep; nil while nothing is held
	closed bool
}

// slice is what is held of one account. Without anything left it remembers how busy the
// caller is: the first charge of a caller is counted alone.
type slice struct {
	limit              Limit
	number, size, left int
	until              time.Duration
	want               int           // how many to ask for next
	rest               time.Duration // until when Redis has none to give
	seen               time.Duration // last charge
	quota              Quota         // as of asked
	asked              time.Duration
	coming             chan struct{} // closed when the slice under way has come; nil when none is
}

// fetch is a slice under way; of the zero value nothing is expected.
type fetch struct {
	trade
	into *slice
	sent time.Duration
}

func newStock() *stock {
	begin := time.Now()
	return &stock{
		replica: rand.Text(),
		clock:   func() time.Duration { return time.Since(begin) },
		held:    map[account]*slice{},
	}
}

// spend takes n of the slice at hand and says where the caller stands then. Without one
// the quota is zero, and the caller asks Redis, with what fetch says; or, where a slice is
// under way and may is true, waits until coming is closed.
func (k *stock) spend(who account, limit Limit, n int, may bool) (q Quota, f fetch, coming <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, s := k.clock(), k.held[who]
	if s == nil {
		if len(k.held) < limits.SlicesHeld && !k.closed {
			k.held[who] = &slice{limit: limit, seen: now}
			k.watch()
		}
		return Quota{}, fetch{}, nil
	}
	cold := now-s.seen > sliceHold
	s.seen = now
	switch {
	case !slices.Equal(s.limit, limit):
		return Quota{}, fetch{}, nil
	case s.left >= n && now < s.until:
		s.left -= n
		return s.quotaAt(now), fetch{}, nil
	case s.coming != nil && may:
		return Quota{}, fetch{}, s.coming
	case s.coming != nil, k.closed, s.left == 0 && (cold || now < s.rest):
		return Quota{}, fetch{}, nil
	}
	f = fetch{into: s, sent: now}
	f.trade = trade{oldNumber: s.number, back: s.left, want: s.next(cold, n), nextNumber: k.next()}
	s.left, s.coming = 0, make(chan struct{})
	return Quota{}, f, nil
}

func (k *stock) next() int {
	k.number++
	return k.number
}

// next is how many to ask for: more while slices are used up, fewer when much was left.
func (s *slice) next(cold bool, n int) int {
	switch {
	case cold:
		s.want = 0
	case s.size == 0: // the first, or the last was given back, or not granted
		s.want = max(s.want, 2*n)
	case s.left == 0:
		s.want = max(2*s.want, 2*n)
	default:
		s.want = max(s.want/2, s.size-s.left, n)
	}
	s.want = min(s.want, sliceMost)
	return s.want
}

func (s *slice) quotaAt(now time.Duration) Quota {
	q := s.quota
	q.Remaining += s.left
	q.Reset = max(q.Reset-(now-s.asked), 0)
	return q
}

// arrived puts a slice into the stock. It holds from before it was asked for, so it is
// over before its bucket is, however long the answer took.
func (k *stock) arrived(f fetch, a answer, err error) {
	if f.into == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := f.into
	close(s.coming)
	s.coming, s.size, s.number = nil, 0, f.nextNumber
	if err != nil {
		return
	}
	s.quota, s.asked = a.Quota, f.sent
	if a.slice == 0 && f.want > 0 {
		s.rest = f.sent + a.life
		return
	}
	s.size, s.left, s.until = a.slice, a.slice, f.sent+a.life
}

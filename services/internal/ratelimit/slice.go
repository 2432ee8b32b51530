package ratelimit

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"slipway.dev/services/internal/limits"
)

// A slice is a part of a caller's remaining charges that is counted in Redis in advance and
// spent in memory. It must be spent within the buckets that it is counted in, so the window is
// as exact as without slices. The unused part is returned. The slices of a killed process are
// lost to their callers until the window has passed, so that no caller gets more than the
// limit.
const (
	// sliceHold is the maximum life of a slice.
	sliceHold = time.Second
	// sliceCount and sliceWindow are the smallest rule for which slices are used: shorter
	// buckets would end immediately, and small numbers are counted one by one.
	sliceCount  = 256
	sliceWindow = time.Minute
	// sliceMost is the largest slice that is requested.
	sliceMost = 1024
)

// sliceable reports whether slices may be used for l.
func (l Limit) sliceable() bool {
	return !slices.ContainsFunc(l, func(r Rule) bool { return r.Count < sliceCount || r.Window < sliceWindow })
}

// account identifies one limit of one caller.
type account struct{ name, caller string }

// stock holds the slices of this process. Its clock is monotonic. It is safe for concurrent
// use.
type stock struct {
	replica string // unique among processes
	clock   func() time.Duration
	sweep   func()

	mu     sync.Mutex
	held   map[account]*slice
	number int         // of the last slice
	timer  *time.Timer // of the next sweep; nil while the stock is empty
	closed bool
}

// slice is the slice of one account. An empty slice records how busy the caller is: the first
// charge of a caller is charged without a slice.
type slice struct {
	limit              Limit
	number, size, left int
	until              time.Duration
	want               int           // size of the next request
	rest               time.Duration // the time until which Redis grants no slice
	seen               time.Duration // last charge
	quota              Quota         // when it was requested
	asked              time.Duration
	coming             chan struct{} // closed when the slice that is being fetched has arrived; nil if none is being fetched
	awaited            int           // charges that have waited for it
}

// fetch is a slice that is being fetched; the zero value is none.
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

// spend charges n to the current slice and returns the caller's quota. Without a slice the
// quota is zero: the caller must then charge Redis with fetch or, if a slice is being
// fetched and may is set, wait until coming is closed.
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
		if s.coming == nil { // the limit was changed: the rest of the old slice stays charged for its window
			k.held[who] = &slice{limit: limit, seen: now}
		}
		return Quota{}, fetch{}, nil
	case s.left >= n && now < s.until:
		s.left -= n
		return s.quotaAt(now), fetch{}, nil
	case s.coming != nil && may:
		s.awaited += n
		return Quota{}, fetch{}, s.coming
	case s.coming != nil, k.closed, s.left == 0 && (cold || now < s.rest):
		return Quota{}, fetch{}, nil
	}
	f = fetch{into: s, sent: now}
	f.trade = trade{oldNumber: s.number, back: s.left, want: s.next(cold, n), nextNumber: k.next()}
	s.left, s.awaited, s.coming = 0, 0, make(chan struct{})
	return Quota{}, f, nil
}

func (k *stock) next() int {
	k.number++
	return k.number
}

// next returns the size of the next request. It is larger after a slice was used up or charges
// have waited, and smaller if much of it was left.
func (s *slice) next(cold bool, n int) int {
	switch {
	case cold:
		s.want = 0
	case s.size == 0: // the first, or the last one was returned or not granted
		s.want = max(s.want, 2*n)
	case s.left == 0:
		s.want = max(2*s.want, 2*n)
	default:
		s.want = max(s.want/2, s.size-s.left, n)
	}
	if !cold {
		s.want = max(s.want, s.awaited)
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

// arrived adds a fetched slice to the stock. Its life begins before the request, so that it
// ends before its bucket, however long the response took.
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

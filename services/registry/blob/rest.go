package blob

import (
	"sync/atomic"
	"time"

	"slipway.dev/services/internal/limits"
)

// rest is a time in which something that failed is left alone; after it one at a time
// tries. Safe for concurrent use.
type rest struct{ until atomic.Int64 } // Unix nanoseconds; 0 while all is well

// may says whether to try.
func (r *rest) may(now time.Time) bool {
	until := r.until.Load()
	return until == 0 || now.UnixNano() >= until && r.until.CompareAndSwap(until, now.Add(limits.BucketAway).UnixNano())
}

// failed begins a time of rest, and says whether it is the first.
func (r *rest) failed(now time.Time) bool {
	return r.until.Swap(now.Add(limits.BucketAway).UnixNano()) == 0
}

// worked ends it, and says whether there was one.
func (r *rest) worked() bool { return r.until.Load() != 0 && r.until.Swap(0) != 0 }

// unknown has another try, if there was one that told nothing.
func (r *rest) unknown() {
	if until := r.until.Load(); until != 0 {
		r.until.CompareAndSwap(until, 1)
	}
}

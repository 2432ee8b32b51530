package blob

import (
	"sync/atomic"
	"time"

	"slipway.dev/services/internal/limits"
)

// A rest is a pause after a failure. After it, one attempt at a time is allowed until one
// succeeds. It is safe for concurrent use.
type rest struct{ until atomic.Int64 } // Unix nanoseconds; 0 without a failure

// may reports whether an attempt is allowed.
func (r *rest) may(now time.Time) bool {
	until := r.until.Load()
	return until == 0 || now.UnixNano() >= until && r.until.CompareAndSwap(until, now.Add(limits.BucketBackoff).UnixNano())
}

// failed starts a pause and reports whether it is the first one.
func (r *rest) failed(now time.Time) bool {
	return r.until.Swap(now.Add(limits.BucketBackoff).UnixNano()) == 0
}

// worked ends the pause and reports whether there was one.
func (r *rest) worked() bool { return r.until.Load() != 0 && r.until.Swap(0) != 0 }

// unknown permits another attempt after one without a result.
func (r *rest) unknown() {
	if until := r.until.Load(); until != 0 {
		r.until.CompareAndSwap(until, 1)
	}
}

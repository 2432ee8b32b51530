package builder

import (
	"cmp"
	"time"
)

// Timing replaces the timeouts of a worker in tests.
type Timing struct {
	// AckWait and Heartbeat keep their defaults if they are 0.
	AckWait, Heartbeat time.Duration
	// Drained ends the drain timeout; nil leaves it to the clock.
	Drained <-chan time.Time
}

// SetTiming applies the test's timeouts, and polls and retries sooner.
func (w *Worker) SetTiming(h Timing) {
	usual := defaultTimeouts()
	w.timeouts = timeouts{
		ackWait: cmp.Or(h.AckWait, usual.ackWait), heartbeat: cmp.Or(h.Heartbeat, h.AckWait/4, usual.heartbeat),
		presence: 100 * time.Millisecond, poll: 20 * time.Millisecond, retry: 20 * time.Millisecond, logs: time.Minute,
	}
	if h.Drained != nil {
		w.after = func(time.Duration) <-chan time.Time { return h.Drained }
	}
}

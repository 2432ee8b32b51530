package builder

import (
	"cmp"
	"time"
)

// Hurry is how a test's worker differs in time from others.
type Hurry struct {
	// AckWait and Heartbeat are as usual when they are 0.
	AckWait, Heartbeat time.Duration
	// Drained ends the time to drain; nil leaves it to the clock.
	Drained <-chan time.Time
}

// Hasten makes a worker look and retry sooner, and hurry.
func (w *Worker) Hasten(h Hurry) {
	usual := defaultTimeouts()
	w.timeouts = timeouts{
		ackWait: cmp.Or(h.AckWait, usual.ackWait), heartbeat: cmp.Or(h.Heartbeat, h.AckWait/4, usual.heartbeat),
		presence: 100 * time.Millisecond, look: 20 * time.Millisecond, retry: 20 * time.Millisecond, logs: time.Minute,
	}
	if h.Drained != nil {
		w.after = func(time.Duration) <-chan time.Time { return h.Drained }
	}
}

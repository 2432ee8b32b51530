package htpasswd

import (
	"time"

	"slipway.dev/services/internal/limits"
)

// attempts counts failed logins by client and by name, in memory of a fixed size.
type attempts map[string]window

// window is a stretch of time in which attempts are counted.
type window struct {
	since time.Time
	count int
}

// counter is what an attempt counts against, and how many it allows.
type counter struct {
	key   string
	limit int
}

// take counts an attempt against all counters, or against none: then it answers
// how long to wait.
func (a attempts) take(counters []counter, now time.Time) (wait time.Duration) {
	for _, c := range counters {
		w := a[c.key]
		if left := w.since.Add(limits.LoginWindow).Sub(now); w.count >= c.limit && left > 0 {
			wait = max(wait, left)
		}
	}
	if wait > 0 {
		return wait
	}
	for _, c := range counters {
		w, known := a[c.key]
		if !known {
			a.makeRoom(now)
		}
		if now.Sub(w.since) >= limits.LoginWindow {
			w = window{since: now}
		}
		w.count++
		a[c.key] = w
	}
	return 0
}

// giveBack uncounts an attempt that was a good login.
func (a attempts) giveBack(counters []counter) {
	for _, c := range counters {
		if w := a[c.key]; w.count > 0 {
			w.count--
			a[c.key] = w
		}
	}
}

// makeRoom forgets what is over; when that is not enough, whatever comes first.
func (a attempts) makeRoom(now time.Time) {
	if len(a) < limits.LoginsKnown {
		return
	}
	for key, w := range a {
		if now.Sub(w.since) >= limits.LoginWindow {
			delete(a, key)
		}
	}
	for key := range a {
		if len(a) < limits.LoginsKnown {
			return
		}
		delete(a, key)
	}
}

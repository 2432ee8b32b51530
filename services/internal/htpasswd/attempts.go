package htpasswd

import (
	"time"

	"slipway.dev/services/internal/limits"
)

// attempts counts failed logins by client and by name. The number of counters is limited.
type attempts map[string]window

// A window is a count of attempts since a time.
type window struct {
	since time.Time
	count int
}

// A counter identifies a counted client or name, and its limit.
type counter struct {
	key   string
	limit int
}

// take counts an attempt against all counters. If one of them has reached its limit, it
// counts nothing and returns the time to wait.
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
			a.evict(now)
		}
		if now.Sub(w.since) >= limits.LoginWindow {
			w = window{since: now}
		}
		w.count++
		a[c.key] = w
	}
	return 0
}

// refund removes an attempt that was counted by take.
func (a attempts) refund(counters []counter) {
	for _, c := range counters {
		if w := a[c.key]; w.count > 0 {
			w.count--
			a[c.key] = w
		}
	}
}

// evict makes room for one counter. It removes expired counters first, then arbitrary ones.
func (a attempts) evict(now time.Time) {
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

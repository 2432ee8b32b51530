package ratelimit

import "time"

// SetClock replaces the monotonic clock that limits the life of slices.
func (l *Limiter) SetClock(clock func() time.Duration) { l.stock.clock = clock }

// Sweep does what the timer does.
func (l *Limiter) Sweep() { l.sweep() }

// Held returns how many charges are in memory, and for how many callers.
func (l *Limiter) Held() (charges, callers int) {
	l.stock.mu.Lock()
	defer l.stock.mu.Unlock()
	for _, s := range l.stock.held {
		charges += s.left
	}
	return charges, len(l.stock.held)
}

// Awaited returns how many charges wait for slices that are being fetched.
func (l *Limiter) Awaited() (charges int) {
	l.stock.mu.Lock()
	defer l.stock.mu.Unlock()
	for _, s := range l.stock.held {
		charges += s.awaited
	}
	return charges
}

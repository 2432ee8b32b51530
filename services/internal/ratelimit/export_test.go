package ratelimit

import "time"

// SetClock replaces the monotonic clock that slices are held by.
func (l *Limiter) SetClock(clock func() time.Duration) { l.stock.clock = clock }

// Sweep does what the timer does.
func (l *Limiter) Sweep() { l.sweep() }

// Held is how many charges are in memory, over all callers, and Callers how many there are.
func (l *Limiter) Held() (charges, callers int) {
	l.stock.mu.Lock()
	defer l.stock.mu.Unlock()
	for _, s := range l.stock.held {
		charges += s.left
	}
	return charges, len(l.stock.held)
}

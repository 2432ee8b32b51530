package sqldb

import "time"

// Expire forces the next Reserve to measure the table again.
func (q *Quota) Expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = time.Time{}
}

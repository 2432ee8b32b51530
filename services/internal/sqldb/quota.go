package sqldb

import (
	"context"
	"sync"
	"time"

	"slipway.dev/services/internal/fault"
)

// A Quota limits the size of a table. It measures the table once a minute, so that several
// processes together may exceed the limit by what they write in a minute. It is safe for
// concurrent use.
type Quota struct {
	db    *DB
	query string
	limit int64

	mu   sync.Mutex
	used int64
	at   time.Time // when used was measured
}

// measureInterval is the interval between measurements.
const measureInterval = time.Minute

// rowOverhead is the number of bytes that each row is charged in addition to its content.
const rowOverhead = "4096"

// NewQuota returns a Quota for a table with a column content. If limit is 0, it is unlimited.
func NewQuota(db *DB, table string, limit int64) *Quota {
	return &Quota{db: db, query: "SELECT coalesce(sum(length(content) + " + rowOverhead + "), 0) FROM " + table, limit: limit}
}

// Reserve counts n bytes that the caller is about to store. It returns fault.Unavailable if
// they exceed the limit.
func (q *Quota) Reserve(ctx context.Context, n int64) error {
	if q.limit <= 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.at) > measureInterval {
		if err := q.db.QueryRowContext(ctx, q.query).Scan(&q.used); err != nil {
			return q.db.Fault("measuring the table", err)
		}
		q.at = time.Now()
	}
	if q.used+n > q.limit {
		return fault.Unavailable.Newf("The service's space for layers and build contexts is used up: " +
			"publish the content at an http(s) URL and set that as location, or try again later").After(10 * time.Minute)
	}
	q.used += n
	return nil
}

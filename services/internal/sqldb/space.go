package sqldb

import (
	"context"
	"sync"
	"time"

	"slipway.dev/services/internal/fault"
)

// Space bounds what a table holds. What several processes write at the same time may
// exceed it by what they write in a minute. Safe for concurrent use.
type Space struct {
	db    *DB
	query string
	most  int64

	mu   sync.Mutex
	used int64
	at   time.Time
}

// measureSpace is how long a sum is believed.
const measureSpace = time.Minute

// rowOverhead is what a row takes beside its content.
const rowOverhead = "4096"

// NewSpace makes one for a table whose column content holds the bytes; most 0 is no
// bound.
func NewSpace(db *DB, table string, most int64) *Space {
	return &Space{db: db, query: "SELECT coalesce(sum(length(content) + " + rowOverhead + "), 0) FROM " + table, most: most}
}

// Take counts n bytes that are about to be stored; fault.Unavailable where there is no
// space for them.
func (s *Space) Take(ctx context.Context, n int64) error {
	if s.most <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > measureSpace {
		if err := s.db.QueryRowContext(ctx, s.query).Scan(&s.used); err != nil {
			return s.db.Fault("measuring what is stored", err)
		}
		s.at = time.Now()
	}
	if s.used+n > s.most {
		return fault.Unavailable.Newf("The service's space for layers and build contexts is used up: " +
			"put the content at an http(s) address and name that as location, or try again later").After(10 * time.Minute)
	}
	s.used += n
	return nil
}

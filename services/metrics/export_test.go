package metrics

import (
	"context"
	"testing"

	"slipway.dev/services/internal/sqldb"
)

// NewForBench returns a function that returns the number of pulls.
func NewForBench(_ testing.TB, db *sqldb.DB) func(ctx context.Context, day, org string) (float64, error) {
	s := &Service{store: store{db}}
	return func(ctx context.Context, day, org string) (float64, error) {
		r, err := s.read(ctx, pulls, day, org)
		return r.count, err
	}
}

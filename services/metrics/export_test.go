package metrics

import (
	"context"
	"testing"

	"slipway.dev/services/internal/sqldb"
)

// NewForBench answers what answers questions about pulls: with how many.
func NewForBench(_ testing.TB, db *sqldb.DB) func(ctx context.Context, day, org string) (float64, error) {
	s := &Service{store: store{db}}
	return func(ctx context.Context, day, org string) (float64, error) {
		r, err := s.answer(ctx, pulls, day, org)
		return r.count, err
	}
}

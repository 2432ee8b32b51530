package store

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/sqldb"
)

// ClaimUnsolved returns up to limit builds whose packages are due to be solved, and hides
// them from other callers until the given time. Builds of users come first, then builds of
// the owner with the fewest claimed or postponed builds.
func (s Store) ClaimUnsolved(ctx context.Context, limit int, now, until time.Time) ([]Record, error) {
	due, err := s.list(ctx, `id IN (
		SELECT id FROM (
			SELECT id, endpoint, created_at, solve_at,
				ROW_NUMBER() OVER (PARTITION BY owner ORDER BY CASE WHEN solve_at > $1 THEN 0 ELSE 1 END, created_at, id) AS place
			FROM build_builds WHERE state = 'PENDING' AND solve_at > 0
		) AS queue WHERE solve_at <= $1
		ORDER BY CASE WHEN endpoint = '' THEN 1 ELSE 0 END, place, created_at, id LIMIT $2)`, sqldb.Micros(now), limit)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, r := range due {
		won, err := s.change(ctx, `UPDATE build_builds SET solve_at = $3 WHERE id = $1 AND state = 'PENDING' AND solve_at > 0 AND solve_at <= $2`,
			r.ID, sqldb.Micros(now), sqldb.Micros(until))
		if err != nil {
			return nil, err
		}
		if won {
			out = append(out, r)
		}
	}
	return out, nil
}

// Solve stores the lock of an unsolved build and its updated request. It returns false if the
// build no longer waits for a lock.
func (s Store) Solve(ctx context.Context, id string, req *buildv1.SubmitBuildRequest, lock *condav1.SolvePackagesResponse) (bool, error) {
	raw, err := proto.Marshal(req)
	if err != nil {
		return false, err
	}
	packed, err := sqldb.Pack(lock)
	if err != nil {
		return false, err
	}
	return s.change(ctx, `
		UPDATE build_builds SET request = $2, conda_lock = $3, solve_at = 0, lock_digest = $4
		WHERE id = $1 AND state = 'PENDING' AND solve_at > 0`, id, raw, packed, environmentLock(req))
}

// Unsolve removes the lock of a build, so that its packages are solved again. The build waits
// like a new build, and its time limit starts when a worker takes it. It returns false if the
// build has ended.
func (s Store) Unsolve(ctx context.Context, id string, req *buildv1.SubmitBuildRequest, now time.Time) (changed bool, err error) {
	raw, err := proto.Marshal(req)
	if err != nil {
		return false, err
	}
	return s.change(ctx, `
		UPDATE build_builds SET request = $2, conda_lock = NULL, lock_digest = '', solve_at = $3,
			published_at = 0, publications = publications + 1, delivery = 0, ticket = '', started_at = 0
		WHERE id = $1 AND state = 'PENDING'`, id, raw, sqldb.Micros(now))
}

// SolveLater postpones the solution of a build's packages to the given time.
func (s Store) SolveLater(ctx context.Context, id string, at time.Time) error {
	_, err := s.change(ctx, `UPDATE build_builds SET solve_at = $2 WHERE id = $1 AND state = 'PENDING' AND solve_at > 0`, id, sqldb.Micros(at))
	return err
}

package store

import (
	"context"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// FormatEnvironment is the format of recipes for an environment that is mounted and has no image.
const FormatEnvironment = "environment"

// HasEnvironment reports whether the result of a recipe is, or is stored with, the artifact with which its
// environment is mounted.
func HasEnvironment(r *buildv1.Recipe) bool {
	return r.GetMount() || r.GetFormat() == FormatEnvironment
}

// environmentLock returns the column lock_digest of a request.
func environmentLock(req *buildv1.SubmitBuildRequest) string {
	if !HasEnvironment(req.GetRecipe()) {
		return ""
	}
	return req.GetRecipe().GetLockDigest()
}

// ofLock is the condition for the builds of the environment of a lock that an identity may use, apart from those
// that have failed. The index build_builds_by_lock finds them.
const ofLock = `lock_digest = $1 AND lock_digest <> '' AND scope IN ('', $2) AND (state = 'PENDING' OR succeeded AND environment <> '')
	ORDER BY CASE WHEN state = 'PENDING' THEN 1 ELSE 0 END, created_at DESC, id LIMIT $3`

// FindEnvironments returns up to limit builds of the environment of a lock that are shared or in a scope: first
// those that have made it, then those that have not ended, each newest first.
func (s Store) FindEnvironments(ctx context.Context, lock, scope string, limit int) ([]Record, error) {
	return s.list(ctx, ofLock, lock, scope, limit)
}

// NoteLock sets the lock of a build by which FindEnvironments finds it, for builds of earlier releases.
func (s Store) NoteLock(ctx context.Context, r Record) error {
	lock := environmentLock(r.Request)
	if lock == "" || r.LockDigest == lock {
		return nil
	}
	_, err := s.change(ctx, `UPDATE build_builds SET lock_digest = $2 WHERE id = $1 AND lock_digest = ''`, r.ID, lock)
	return err
}

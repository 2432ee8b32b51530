package store

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A StoredLock is the stored solution of a request.
type StoredLock struct {
	// Lock is nil if the request was queued before it was solved.
	Lock *condav1.SolvePackagesResponse
	// Base is the digest of the base image.
	Base digest.Digest
	// ID is the ID that it is stored under.
	ID string
}

// LockOf returns the solution that is stored under the first of two IDs or, without one, under
// the second. It ignores solutions from before since, and returns sql.ErrNoRows without a
// solution.
func (s Store) LockOf(ctx context.Context, first, second string, since time.Time) (StoredLock, error) {
	var packed []byte
	var id, base string
	err := s.db.PreparedRow(ctx, `
		SELECT id, lock, base FROM container_locks WHERE id IN ($1, $2) AND created_at > $3 ORDER BY CASE WHEN id = $1 THEN 0 ELSE 1 END LIMIT 1`,
		first, second, sqldb.Micros(since)).Scan(&id, &packed, &base)
	if err != nil {
		return StoredLock{}, err
	}
	out := StoredLock{Base: digest.Digest(base), ID: id}
	if len(packed) == 0 {
		return out, out.Base.Validate()
	}
	out.Lock = &condav1.SolvePackagesResponse{}
	return out, errors.Join(sqldb.Unpack(packed, limits.BuildLock, out.Lock), out.Base.Validate())
}

// PutLock stores a lock; if packed is empty, it stores that the request was queued before
// it was solved. A stored lock that is not older than since is not replaced.
func (s Store) PutLock(ctx context.Context, id string, packed []byte, base digest.Digest, now, since time.Time) error {
	_, err := s.db.PreparedExec(ctx, `
		INSERT INTO container_locks (id, lock, base, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET lock = excluded.lock, base = excluded.base, created_at = excluded.created_at
		WHERE container_locks.created_at <= $5 OR length(container_locks.lock) = 0`, id, append([]byte{}, packed...), base.String(), sqldb.Micros(now), sqldb.Micros(since))
	return err
}

// DeleteLocks deletes locks older than before.
func (s Store) DeleteLocks(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_locks WHERE created_at <= $1`, sqldb.Micros(before))
	return err
}

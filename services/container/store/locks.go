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

// Remembered is what a request stands for until it is forgotten.
type Remembered struct {
	Lock *condav1.SolvePackagesResponse
	// Base is the digest of the base image.
	Base digest.Digest
}

// LockOf reads what is remembered under the first of some ids that is known since a
// moment; sql.ErrNoRows when none is.
func (s Store) LockOf(ctx context.Context, first, second string, since time.Time) (Remembered, error) {
	var packed []byte
	var base string
	err := s.db.QueryRowContext(ctx, `
		SELECT lock, base FROM container_locks WHERE id IN ($1, $2) AND created_at > $3 ORDER BY CASE WHEN id = $1 THEN 0 ELSE 1 END LIMIT 1`,
		first, second, sqldb.Micros(since)).Scan(&packed, &base)
	if err != nil {
		return Remembered{}, err
	}
	out := Remembered{Lock: &condav1.SolvePackagesResponse{}, Base: digest.Digest(base)}
	return out, errors.Join(sqldb.Unpack(packed, limits.BuildLock, out.Lock), out.Base.Validate())
}

// PutLock remembers a lock; one that is there, and not older than a moment, stays.
func (s Store) PutLock(ctx context.Context, id string, packed []byte, base digest.Digest, now, since time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_locks (id, lock, base, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET lock = excluded.lock, base = excluded.base, created_at = excluded.created_at
		WHERE container_locks.created_at <= $5`, id, packed, base.String(), sqldb.Micros(now), sqldb.Micros(since))
	return err
}

// DeleteLocks forgets those from before a moment.
func (s Store) DeleteLocks(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_locks WHERE created_at <= $1`, sqldb.Micros(before))
	return err
}

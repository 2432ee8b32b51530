package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// WorkerKey is a row of build_workers: a key with which a worker signs records of layers.
type WorkerKey struct {
	// ID is buildbus.KeyID of the key.
	ID     string
	Worker string
	// Certificate is the SHA-256 of the public key in the worker's certificate; "" for none.
	Certificate string
	PublicKey   []byte
	Registered  time.Time
	Seen        time.Time
	Revoked     time.Time // zero for a key that is valid
}

// PutWorkerKey stores a key, or renews a stored one. It returns false for a key that has been
// revoked or belongs to another worker.
func (s Store) PutWorkerKey(ctx context.Context, k WorkerKey) (bool, error) {
	return s.change(ctx, `
		INSERT INTO build_workers (key_id, worker, certificate, public_key, registered_at, seen_at, revoked_at, barred, forgotten)
		VALUES ($1, $2, $3, $4, $5, $5, 0, FALSE, FALSE)
		ON CONFLICT (key_id) DO UPDATE SET seen_at = excluded.seen_at
			WHERE build_workers.worker = excluded.worker AND build_workers.revoked_at = 0`,
		k.ID, k.Worker, k.Certificate, k.PublicKey, sqldb.Micros(k.Seen))
}

// WorkerKey returns a key that was seen after a time and is not revoked; fault.NotFound
// otherwise.
func (s Store) WorkerKey(ctx context.Context, id string, seenAfter time.Time) (public []byte, err error) {
	err = s.db.PreparedRow(ctx, `SELECT public_key FROM build_workers WHERE key_id = $1 AND revoked_at = 0 AND seen_at > $2`,
		id, sqldb.Micros(seenAfter)).Scan(&public)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("The key is unknown, revoked or expired", err)
	}
	return public, err
}

// WorkerKeys returns up to limit keys, those seen last first.
func (s Store) WorkerKeys(ctx context.Context, limit int) ([]WorkerKey, error) {
	return sqldb.Listing[WorkerKey]{
		Read: `SELECT key_id, worker, certificate, public_key, registered_at, seen_at, revoked_at
			FROM build_workers ORDER BY seen_at DESC, key_id LIMIT $1`,
		Scan: scanWorkerKey,
	}.All(ctx, s.db, limit)
}

// RevokedKeys returns up to limit revoked keys whose records may still be on the bus.
func (s Store) RevokedKeys(ctx context.Context, limit int) ([]WorkerKey, error) {
	return sqldb.Listing[WorkerKey]{
		Read: `SELECT key_id, worker, certificate, public_key, registered_at, seen_at, revoked_at
			FROM build_workers WHERE revoked_at > 0 AND NOT forgotten ORDER BY revoked_at LIMIT $1`,
		Scan: scanWorkerKey,
	}.All(ctx, s.db, limit)
}

func scanWorkerKey(rows *sql.Rows) (k WorkerKey, err error) {
	err = rows.Scan(&k.ID, &k.Worker, &k.Certificate, &k.PublicKey, sqldb.ScanTime(&k.Registered), sqldb.ScanTime(&k.Seen), sqldb.ScanTime(&k.Revoked))
	return k, err
}

// CountWorkerKeys counts all stored keys.
func (s Store) CountWorkerKeys(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM build_workers`).Scan(&n)
	return n, err
}

// IsBarred reports whether workers with a certificate may not register keys.
func (s Store) IsBarred(ctx context.Context, certificate string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM build_workers WHERE certificate = $1 AND certificate <> '' AND barred`, certificate).Scan(&n)
	return n > 0, err
}

// MarkForgotten notes that the records that a revoked key signed are no longer on the bus.
func (s Store) MarkForgotten(ctx context.Context, id string) error {
	_, err := s.change(ctx, `UPDATE build_workers SET forgotten = TRUE WHERE key_id = $1 AND revoked_at > 0`, id)
	return err
}

// RemoveWorkerKeys deletes the keys that were last seen before a time, except keys that bar a
// certificate, and revoked keys whose records may still be on the bus.
func (s Store) RemoveWorkerKeys(ctx context.Context, before time.Time) error {
	_, err := s.change(ctx, `DELETE FROM build_workers WHERE seen_at < $1 AND NOT barred AND (revoked_at = 0 OR forgotten)`, sqldb.Micros(before))
	return err
}

// PutLayerKeys records the keys that signed layers in the image of a build, and the workers
// of these keys, because a key may be deleted before its worker is revoked.
func (s Store) PutLayerKeys(ctx context.Context, id string, keys []string) error {
	for _, k := range keys {
		_, err := s.change(ctx, `INSERT INTO build_layer_keys (build_id, key_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, k)
		if err != nil {
			return err
		}
		if _, err = s.change(ctx, `INSERT INTO build_makers (build_id, worker)
			SELECT $1, worker FROM build_workers WHERE key_id = $2 ON CONFLICT DO NOTHING`, id, k); err != nil {
			return err
		}
	}
	return nil
}

// IsRevoked reports whether any of the keys has been revoked.
func (s Store) IsRevoked(ctx context.Context, keys []string) (bool, error) {
	for _, k := range keys {
		var n int
		err := s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM build_workers WHERE key_id = $1 AND revoked_at > 0`, k).Scan(&n)
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

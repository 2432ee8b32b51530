package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// Signature returns the stored signature of a message by a key; nil if none was stored.
func (s Store) Signature(ctx context.Context, key, message string) (out []byte, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT signature FROM container_signatures WHERE key_hint = $1 AND message = $2`, key, message).Scan(&out)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return out, err
}

// StoreSignature stores a signature and returns it or, if another caller was faster, the one that
// was stored first.
func (s Store) StoreSignature(ctx context.Context, key, message string, signature []byte, now time.Time) ([]byte, error) {
	if _, err := s.db.ExecContext(ctx, `
		INSERT INTO container_signatures (key_hint, message, signature, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		key, message, signature, sqldb.Micros(now)); err != nil {
		return nil, err
	}
	return s.Signature(ctx, key, message)
}

// DeleteSignatures deletes signatures from before a time.
func (s Store) DeleteSignatures(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_signatures WHERE created_at <= $1`, sqldb.Micros(before))
	return err
}

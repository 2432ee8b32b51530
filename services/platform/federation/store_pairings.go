package federation

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

// A pairing is a service that may read credentials of this platform.
type pairing struct {
	id               string
	publicKey        []byte // PKCS #1, DER
	operator         string
	created, expires time.Time
}

func (s store) insertPairing(ctx context.Context, log audit.Log, p pairing) error {
	_, err := log.Change(ctx, audit.Event{Action: "pairing.create", Subject: p.id}, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
		INSERT INTO platform_pairings (id, public_key, operator, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
			p.id, p.publicKey, p.operator, sqldb.Micros(p.created), sqldb.Micros(p.expires)))
	})
	return err
}

// pairing returns an unexpired pairing with its public key, or fault.NotFound.
func (s store) pairing(ctx context.Context, id string, now time.Time) (pairing, error) {
	p := pairing{id: id}
	err := s.db.QueryRowContext(ctx, `SELECT public_key FROM platform_pairings WHERE id = $1 AND expires_at > $2`,
		id, sqldb.Micros(now)).Scan(&p.publicKey)
	return p, s.db.NotFound("pairing", err)
}

// deletePairings deletes expired pairings.
func (s store) deletePairings(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_pairings WHERE expires_at <= $1`, sqldb.Micros(now))
	return err
}

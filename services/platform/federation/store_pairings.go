package federation

import (
	"context"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// pairing is a service that may read credentials.
type pairing struct {
	id               string
	publicKey        []byte // PKCS #1, DER
	operator         string
	created, expires time.Time
}

func (s store) insertPairing(ctx context.Context, p pairing) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_pairings (id, public_key, operator, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
		p.id, p.publicKey, p.operator, sqldb.Micros(p.created), sqldb.Micros(p.expires))
	return err
}

// pairing reads one that has not ended; fault.NotFound.
func (s store) pairing(ctx context.Context, id string, now time.Time) (pairing, error) {
	p := pairing{id: id}
	err := s.db.QueryRowContext(ctx, `SELECT public_key FROM platform_pairings WHERE id = $1 AND expires_at > $2`,
		id, sqldb.Micros(now)).Scan(&p.publicKey)
	return p, s.db.NotFound("pairing", err)
}

// deletePairings removes those whose time is over.
func (s store) deletePairings(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_pairings WHERE expires_at <= $1`, sqldb.Micros(now))
	return err
}

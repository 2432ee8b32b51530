package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// What stands in the column challenge of a code that no verifier belongs to. No hash is
// as short, so that neither can be redeemed as an authorization code.
const (
	consentCode = "consent" // a person who came back from the provider
	grantCode   = "device"  // a program that was let in; under its device code
)

// device is a program that shows a code.
type device struct {
	hash, userHash []byte
	clientID       string
	pause          time.Duration
	expires        time.Time
	early          bool // whether it asked before pause was over
}

// putDevice also forgets those whose time is over. fault.Unavailable when too many
// wait.
func (s store) putDevice(ctx context.Context, d device, now time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, `DELETE FROM platform_devices WHERE expires_at <= $1`, sqldb.Micros(now)); err != nil {
			return err
		}
		var n int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM platform_devices`).Scan(&n); err != nil {
			return err
		}
		if n >= limits.DevicesWaiting {
			return fault.Unavailable.Newf("Too many programs wait for their code to be entered; try again in a minute").After(time.Minute)
		}
		_, err := t.ExecContext(ctx, `
			INSERT INTO platform_devices (device_hash, user_hash, client_id, pause, expires_at) VALUES ($1, $2, $3, $4, $5)`,
			d.hash, d.userHash, d.clientID, int64(d.pause/time.Second), sqldb.Micros(d.expires))
		return err
	})
}

// askDevice reads a program that waits, and notes that it asked; fault.NotFound.
func (s store) askDevice(ctx context.Context, hash []byte, clientID string, now time.Time) (device, error) {
	d := device{hash: hash, clientID: clientID}
	err := s.db.Tx(ctx, func(t *sql.Tx) error {
		var pause int64
		var asked time.Time
		err := t.QueryRowContext(ctx, `
			SELECT pause, asked_at, expires_at FROM platform_devices WHERE device_hash = $1 AND client_id = $2`, hash, clientID).
			Scan(&pause, sqldb.Into(&asked), sqldb.Into(&d.expires))
		if err != nil {
			return err
		}
		d.pause = time.Duration(pause) * time.Second
		if d.early = now.Sub(asked) < d.pause; d.early {
			d.pause += devicePause
		}
		_, err = t.ExecContext(ctx, `UPDATE platform_devices SET pause = $2, asked_at = $3 WHERE device_hash = $1`,
			hash, int64(d.pause/time.Second), sqldb.Micros(now))
		return err
	})
	return d, s.db.NotFound("device", err)
}

// allowDevice has a code of the person's take the program's place; fault.NotFound when
// none shows that code, or the consent was used.
func (s store) allowDevice(ctx context.Context, userHash []byte, by consent, now time.Time) (device, error) {
	d := device{userHash: userHash}
	err := s.db.Tx(ctx, func(t *sql.Tx) error {
		err := t.QueryRowContext(ctx, `
			DELETE FROM platform_devices WHERE user_hash = $1 AND expires_at > $2 RETURNING device_hash, client_id, expires_at`,
			userHash, sqldb.Micros(now)).Scan(&d.hash, &d.clientID, sqldb.Into(&d.expires))
		if err != nil {
			return err
		}
		if by.hash != nil {
			ended, err := s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_codes WHERE code_hash = $1`, by.hash))
			if err != nil {
				return err
			}
			if !ended {
				return sql.ErrNoRows
			}
		}
		_, err = t.ExecContext(ctx, `
			INSERT INTO platform_codes (code_hash, user_id, token_id, client_id, redirect_uri, challenge, expires_at) VALUES ($1, $2, $3, $4, '', $5, $6)`,
			d.hash, by.user.ID, by.token, d.clientID, grantCode, sqldb.Micros(d.expires))
		return err
	})
	return d, s.db.NotFound("device", err)
}

// consent reads who came back from the provider; fault.NotFound.
func (s store) consent(ctx context.Context, hash []byte, now time.Time) (consent, error) {
	c := consent{hash: hash}
	err := s.db.QueryRowContext(ctx, `
		SELECT `+UserColumns+` FROM platform_codes c JOIN platform_users u ON u.id = c.user_id
		WHERE c.code_hash = $1 AND c.challenge = $2 AND c.expires_at > $3 AND u.disabled_at = 0`, hash, consentCode, sqldb.Micros(now)).
		Scan(c.user.Into()...)
	return c, s.db.NotFound("consent", err)
}

// takeGrant reads who let a program in, and ends it; fault.NotFound.
func (s store) takeGrant(ctx context.Context, hash []byte, clientID string, now time.Time) (code, error) {
	c := code{hash: hash, clientID: clientID}
	err := s.db.QueryRowContext(ctx, `
		DELETE FROM platform_codes WHERE code_hash = $1 AND client_id = $2 AND challenge = $3 AND expires_at > $4 RETURNING user_id, token_id`,
		hash, clientID, grantCode, sqldb.Micros(now)).Scan(&c.userID, &c.token)
	return c, s.db.NotFound("code", err)
}

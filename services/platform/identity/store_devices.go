package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A device is a program that displays a code.
type device struct {
	hash, userHash []byte
	clientID       string
	pause          time.Duration
	expires        time.Time
	early          bool // whether it polled before pause had passed
}

// putDevice stores a device and deletes expired ones. It returns fault.Unavailable if too many
// devices are waiting.
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
			return fault.Unavailable.Newf("Too many programs are waiting for their code to be entered; try again in a minute").After(time.Minute)
		}
		_, err := t.ExecContext(ctx, `
			INSERT INTO platform_devices (device_hash, user_hash, client_id, pause, expires_at) VALUES ($1, $2, $3, $4, $5)`,
			d.hash, d.userHash, d.clientID, int64(d.pause/time.Second), sqldb.Micros(d.expires))
		return err
	})
}

// pollDevice returns a waiting device, or fault.NotFound, and records the time of the poll.
func (s store) pollDevice(ctx context.Context, hash []byte, clientID string, now time.Time) (device, error) {
	d := device{hash: hash, clientID: clientID}
	err := s.db.Tx(ctx, func(t *sql.Tx) error {
		var pause int64
		var asked time.Time
		err := t.QueryRowContext(ctx, `
			SELECT pause, asked_at, expires_at FROM platform_devices WHERE device_hash = $1 AND client_id = $2`, hash, clientID).
			Scan(&pause, sqldb.ScanTime(&asked), sqldb.ScanTime(&d.expires))
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

// putConsent stores the consent code of the user who entered the code with c.userHash, and
// returns it with the program's name. It deletes the user's sign-in code. It returns
// fault.NotFound if no device displays the code, or the sign-in code has been used.
func (s store) putConsent(ctx context.Context, by browserUser, c code, now time.Time) (code, error) {
	err := s.db.Tx(ctx, func(t *sql.Tx) error {
		var until time.Time
		err := t.QueryRowContext(ctx, `SELECT client_id, expires_at FROM platform_devices WHERE user_hash = $1 AND expires_at > $2`,
			c.userHash, sqldb.Micros(now)).Scan(&c.clientID, sqldb.ScanTime(&until))
		if err != nil {
			return err
		}
		if until.Before(c.expires) {
			c.expires = until
		}
		if err := by.deleteSignInCode(ctx, s.db, t); err != nil {
			return err
		}
		return insertCode(ctx, t, c, now)
	})
	return c, s.db.NotFound("device", err)
}

// takeDevice deletes the device that displays a code, and returns the hash and the expiry of
// its device code. It returns sql.ErrNoRows if no device displays the code.
func takeDevice(ctx context.Context, t *sql.Tx, userHash []byte, now time.Time) (hash []byte, expires time.Time, err error) {
	err = t.QueryRowContext(ctx, `
		DELETE FROM platform_devices WHERE user_hash = $1 AND expires_at > $2 RETURNING device_hash, expires_at`,
		userHash, sqldb.Micros(now)).Scan(&hash, sqldb.ScanTime(&expires))
	return hash, expires, err
}

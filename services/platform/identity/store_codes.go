package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

// A codeKind is the purpose of a code.
type codeKind string

const (
	// programCode is an authorization code, which a program exchanges for tokens.
	programCode codeKind = "code"
	// deviceCode is the device code of a program that a user has accepted; the program
	// exchanges it for tokens.
	deviceCode codeKind = "device"
	// signInCode represents a user who has signed in at the provider and will enter the code
	// that a device displays.
	signInCode codeKind = "sign-in"
	// consentCode lets a user consent to one program.
	consentCode codeKind = "consent"
)

// A code is a secret that works once, for a short time.
type code struct {
	kind                             codeKind
	hash                             []byte
	userID, token                    int64 // see session
	clientID, redirectURI, challenge string
	state                            string // returned to the program with its code
	userHash                         []byte // of the code that a device displays; nil for other programs
	expires                          time.Time
}

// putSignInCode stores the code of a user who has just signed in.
func (s store) putSignInCode(ctx context.Context, c code, method string, now time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		if err := insertCode(ctx, t, c, now); err != nil {
			return err
		}
		return s.appendAs(ctx, t, c.userID, audit.Event{Action: "sign-in", Subject: c.clientID, After: map[string]any{"method": method}})
	})
}

// putCode stores a code and deletes expired ones.
func (s store) putCode(ctx context.Context, c code, now time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error { return insertCode(ctx, t, c, now) })
}

func insertCode(ctx context.Context, t *sql.Tx, c code, now time.Time) error {
	if _, err := t.ExecContext(ctx, `DELETE FROM platform_codes WHERE expires_at < $1`, sqldb.Micros(now)); err != nil {
		return err
	}
	_, err := t.ExecContext(ctx, `
		INSERT INTO platform_codes (kind, code_hash, user_id, token_id, client_id, redirect_uri, challenge, program_state, user_hash, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		string(c.kind), c.hash, c.userID, c.token, c.clientID, c.redirectURI, c.challenge, c.state, c.userHash, sqldb.Micros(c.expires))
	return err
}

const codeColumns = `user_id, token_id, client_id, redirect_uri, challenge, program_state, user_hash, expires_at`

func (c *code) into() []any {
	return []any{&c.userID, &c.token, &c.clientID, &c.redirectURI, &c.challenge, &c.state, &c.userHash, sqldb.ScanTime(&c.expires)}
}

// takeCode deletes and returns a program's code. It returns sql.ErrNoRows if the code does not
// exist.
func takeCode(ctx context.Context, t *sql.Tx, kind codeKind, hash []byte, clientID string) (code, error) {
	c := code{kind: kind, hash: hash}
	err := t.QueryRowContext(ctx, `
		DELETE FROM platform_codes WHERE code_hash = $1 AND kind = $2 AND client_id = $3 RETURNING `+codeColumns, hash, string(kind), clientID).Scan(c.into()...)
	return c, err
}

// signedIn returns the user of a sign-in code; fault.NotFound if the code is used or has
// expired, or the user is disabled.
func (s store) signedIn(ctx context.Context, hash []byte, now time.Time) (browserUser, error) {
	p := browserUser{code: hash}
	err := s.db.QueryRowContext(ctx, `
		SELECT `+UserColumns+` FROM platform_codes c JOIN platform_users u ON u.id = c.user_id
		WHERE c.code_hash = $1 AND c.kind = $2 AND c.expires_at > $3 AND u.disabled_at = 0`, hash, string(signInCode), sqldb.Micros(now)).
		Scan(p.user.Into()...)
	return p, s.db.NotFound("sign-in", err)
}

// deleteSignInCode deletes the user's sign-in code; sql.ErrNoRows if it has been used. It does
// nothing for a user with an access token.
func (p browserUser) deleteSignInCode(ctx context.Context, db *sqldb.DB, t *sql.Tx) error {
	if p.code == nil {
		return nil
	}
	deleted, err := db.Changed(t.ExecContext(ctx, `DELETE FROM platform_codes WHERE code_hash = $1`, p.code))
	if err == nil && !deleted {
		err = sql.ErrNoRows
	}
	return err
}

// grantConsent deletes a consent and stores the code of its program: under hash, or under the
// device's own code. It returns fault.NotFound if the consent or the device was used or has
// expired.
func (s store) grantConsent(ctx context.Context, consent, hash []byte, now time.Time) (code, error) {
	c := code{kind: programCode, hash: hash}
	err := s.db.Tx(ctx, func(t *sql.Tx) error {
		err := t.QueryRowContext(ctx, `
			DELETE FROM platform_codes WHERE code_hash = $1 AND kind = $2 AND expires_at > $3 RETURNING `+codeColumns,
			consent, string(consentCode), sqldb.Micros(now)).Scan(c.into()...)
		if err != nil {
			return err
		}
		c.expires = now.Add(codeTTL)
		if c.userHash != nil {
			c.kind = deviceCode
			if c.hash, c.expires, err = takeDevice(ctx, t, c.userHash, now); err != nil {
				return err
			}
		}
		if err := insertCode(ctx, t, c, now); err != nil {
			return err
		}
		return s.appendAs(ctx, t, c.userID, audit.Event{Action: "consent.grant", Subject: c.clientID})
	})
	return c, s.db.NotFound("consent", err)
}

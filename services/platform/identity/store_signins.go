package identity

import (
	"context"
	"database/sql"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

// A pendingSignIn is a sign-in at the OIDC provider that has not finished.
type pendingSignIn struct {
	program         *platformv1.Program
	programState    string
	nonce, verifier string
	expires         time.Time
}

func (s store) putSignIn(ctx context.Context, stateHash []byte, p pendingSignIn) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_sign_ins (state_hash, client_id, redirect_uri, challenge, program_state, nonce, verifier, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		stateHash, p.program.GetClientId(), p.program.GetRedirectUri(), p.program.GetCodeChallenge(), p.programState, p.nonce, p.verifier, sqldb.Micros(p.expires))
	return s.db.Wrap(err)
}

// takeSignIn deletes and returns a pending sign-in, or returns fault.NotFound.
func (s store) takeSignIn(ctx context.Context, stateHash []byte) (pendingSignIn, error) {
	p := pendingSignIn{program: &platformv1.Program{CodeChallengeMethod: "S256"}}
	err := s.db.QueryRowContext(ctx, `
		DELETE FROM platform_sign_ins WHERE state_hash = $1
		RETURNING client_id, redirect_uri, challenge, program_state, nonce, verifier, expires_at`, stateHash).
		Scan(&p.program.ClientId, &p.program.RedirectUri, &p.program.CodeChallenge, &p.programState, &p.nonce, &p.verifier, sqldb.ScanTime(&p.expires))
	return p, s.db.NotFound("sign-in", err)
}

// userLoggedIn returns the user who is linked to a provider's subject, or fault.NotFound.
func (s store) userLoggedIn(ctx context.Context, issuer, subject string) (User, error) {
	return s.userBy(ctx, `JOIN platform_logins l ON l.user_id = u.id WHERE l.issuer = $1 AND l.subject = $2`, issuer, subject)
}

// userWithEmail returns the user with an e-mail address, ignoring the case of ASCII letters. It
// returns fault.NotFound unless exactly one user has the address.
func (s store) userWithEmail(ctx context.Context, email string) (User, error) {
	list, err := usersWithEmail(ctx, s.db, email)
	if err != nil {
		return User{}, s.db.Wrap(err)
	}
	if len(list) != 1 {
		return User{}, fault.NotFound.Newf("%d users have the address", len(list))
	}
	return list[0], nil
}

// AddressKey returns the form in which e-mail addresses are compared: with ASCII letters in lower
// case.
func AddressKey(email string) string { return lowerASCII(email) }

// lowerASCII returns s with its ASCII letters in lower case. It does not change letters that
// Unicode folds to ASCII letters, such as the kelvin sign: they make a different address.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// linkLogin links a subject to a user. It returns false if the subject is linked already, or
// another subject of the issuer is linked to the user.
func (s store) linkLogin(ctx context.Context, issuer, subject string, u User, now time.Time) (bool, error) {
	e := audit.Event{Action: "user.link", Subject: u.Name, After: map[string]any{"issuer": issuer, "subject": subject}}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_logins (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			issuer, subject, u.ID, sqldb.Micros(now)))
	})
}

// unlinkLogins deletes the links of a user, and the sessions and codes that began with them.
func (s store) unlinkLogins(ctx context.Context, u User) error {
	_, err := s.audit.Change(ctx, audit.Event{Action: "user.unlink", Subject: u.Name}, func(t *sql.Tx) (bool, error) {
		for _, text := range []string{
			`DELETE FROM platform_logins WHERE user_id = $1`, `DELETE FROM platform_codes WHERE user_id = $1 AND token_id = 0`,
			`DELETE FROM platform_sessions WHERE user_id = $1 AND token_id = 0`,
		} {
			if _, err := t.ExecContext(ctx, text, u.ID); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}

package identity

import (
	"context"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/sqldb"
)

// pendingSignIn is a person on the way to the OIDC provider and back.
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
	return s.db.Lost(err)
}

// takeSignIn reads one and ends it; fault.NotFound.
func (s store) takeSignIn(ctx context.Context, stateHash []byte) (pendingSignIn, error) {
	p := pendingSignIn{program: &platformv1.Program{CodeChallengeMethod: "S256"}}
	err := s.db.QueryRowContext(ctx, `
		DELETE FROM platform_sign_ins WHERE state_hash = $1
		RETURNING client_id, redirect_uri, challenge, program_state, nonce, verifier, expires_at`, stateHash).
		Scan(&p.program.ClientId, &p.program.RedirectUri, &p.program.CodeChallenge, &p.programState, &p.nonce, &p.verifier, sqldb.Into(&p.expires))
	return p, s.db.NotFound("sign-in", err)
}

// userLoggedIn finds who has signed in as a provider's subject; fault.NotFound.
func (s store) userLoggedIn(ctx context.Context, issuer, subject string) (User, error) {
	return s.userBy(ctx, `JOIN platform_logins l ON l.user_id = u.id WHERE l.issuer = $1 AND l.subject = $2`, issuer, subject)
}

// userWithEmail finds a user by address; fault.NotFound.
func (s store) userWithEmail(ctx context.Context, email string) (User, error) {
	return s.userBy(ctx, `WHERE lower(u.email) = lower($1)`, email)
}

func (s store) linkLogin(ctx context.Context, issuer, subject string, userID int64, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_logins (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		issuer, subject, userID, sqldb.Micros(now))
	return s.db.Lost(err)
}

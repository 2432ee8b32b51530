// Package identity owns users, their access tokens and their sessions, and the tokens of
// robots. Users sign in with an access token or at an OIDC provider. They sign in programs with
// an authorization code (a program on the same machine) or a device code (a program on another
// machine). A session is a program with a chain of refresh tokens; its access tokens are JWTs.
// Tokens and codes are stored as hashes only. It writes the tables platform_users,
// platform_tokens, platform_codes, platform_sessions, platform_devices, platform_sign_ins,
// platform_logins and platform_robot_tokens. Deleting a user also deletes the user's rows of
// other subpackages.
package identity

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/vault"
)

// Deps are the dependencies of a Service.
type Deps struct {
	DB *sqldb.DB
	// Endpoint is the platform's own public address, without a slash at the end.
	Endpoint string
	// Pages is the base address of the web pages, without a slash at the end.
	Pages string
	// OIDC is the provider at which users may sign in.
	OIDC OIDC
	// Keys signs JWTs. If it is nil, sessions are disabled and only access tokens work.
	Keys *vault.Keys
	// Limiter limits calls; nil means no limits.
	Limiter *ratelimit.Limiter
	Log     *slog.Logger
	// MaxTokenLife is the maximum lifetime of new access tokens; 0 means no maximum.
	MaxTokenLife time.Duration
	// Audit records changes and sign-ins.
	Audit audit.Log
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for users, tokens and sign-in. Create it with New.
type Service struct {
	store store
	deps  Deps
	oidc  *provider
	roles Roles // nil ignores groups
	// invitations are accepted by new users and at sign-ins; nil means none.
	invitations Invitations
}

// New returns a Service. The tables must exist.
func New(d Deps) *Service {
	if d.Audit.DB == nil {
		d.Audit = audit.Log{DB: d.DB, Now: d.Now}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{store: store{d.DB, d.Audit}, deps: d, oidc: newProvider(d)}
}

// Sweep deletes expired sessions, codes, devices and sign-ins.
func (s *Service) Sweep(ctx context.Context) error {
	var problems []error
	for _, table := range []string{"platform_sessions", "platform_codes", "platform_devices", "platform_sign_ins"} {
		_, err := s.deps.DB.ExecContext(ctx, `DELETE FROM `+table+` WHERE expires_at <= $1`, sqldb.Micros(s.deps.Now()))
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

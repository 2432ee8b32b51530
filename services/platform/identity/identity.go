// Package identity owns users, their access tokens, and how people sign in: with a
// code for a program on their machine or on another, or at an OIDC provider. It writes
// the tables platform_users, platform_tokens, platform_codes, platform_sessions,
// platform_devices, platform_sign_ins and platform_logins. Of a token only a hash is kept.
package identity

import (
	"context"
	"errors"
	"time"

	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/vault"
)

// Deps is what the service works with.
type Deps struct {
	DB *sqldb.DB
	// Endpoint is the platform's own public address, without a slash at the end.
	Endpoint string
	// Pages is the address of the page for people, likewise.
	Pages string
	// OIDC is a provider at which people may sign in.
	OIDC OIDC
	// Keys sign; nil lets nobody sign in.
	Keys *vault.Keys
	// Limiter counts calls; nil counts none.
	Limiter *ratelimit.Limiter
	// CallLimit is for each access token, and for the address of who has none yet.
	CallLimit ratelimit.Limit
	// Now is the clock.
	Now func() time.Time
}

// Service answers the calls about users, tokens and signing in. Make it with New.
type Service struct {
	store store
	deps  Deps
	oidc  *provider
}

// New makes the service. The tables must be there.
func New(d Deps) *Service {
	return &Service{store: store{d.DB}, deps: d, oidc: newProvider(d)}
}

// Sweep removes sessions, sign-ins, devices and codes whose time is over.
func (s *Service) Sweep(ctx context.Context) error {
	var problems []error
	for _, table := range []string{"platform_sessions", "platform_codes", "platform_devices", "platform_sign_ins"} {
		_, err := s.deps.DB.ExecContext(ctx, `DELETE FROM `+table+` WHERE expires_at <= $1`, sqldb.Micros(s.deps.Now()))
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

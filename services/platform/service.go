// Package platform is the room of users and what they own: the thin gRPC service over
// its nouns, each a package with its tables. identity has users, their tokens and how
// they sign in; orgs organisations and workspaces; credentials logins at registries;
// federation other platforms; runs what workflows report. This package says who may
// make which call, and where a call of the program's other rooms belongs. It owns no
// table, and never pulls an image.
package platform

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/credentials"
	"slipway.dev/services/platform/federation"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/migrations"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/runs"
	"slipway.dev/services/platform/vault"
)

// Migrations are this room's changes of the schema, for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// Deps is what the service works with.
type Deps struct {
	DB *sqldb.DB
	// Endpoint is the platform's own public address, without a slash at the end;
	// Aliases are others under which it is known.
	Endpoint string
	Aliases  []string
	// Pages is the address of the page for people, likewise.
	Pages string
	// Foreign is other platforms that are trusted.
	Foreign federation.Trusted
	// OIDC is a provider at which people may sign in.
	OIDC identity.OIDC
	// AdminLogins are the first user's credentials, by registry host or host/path.
	AdminLogins map[string]upstream.Login
	// Keys opens and seals secrets; nil keeps none (see CheckKeys).
	Keys *vault.Keys
	// Limiter counts calls of the REST face; nil counts none.
	Limiter *ratelimit.Limiter
	// CallLimit is for each access token.
	CallLimit ratelimit.Limit
	// OperatorAccounts is an htpasswd file; "" switches operator calls off.
	OperatorAccounts string
	// Version and Commit are what the program was built from.
	Version, Commit string
	// AuditRetention is how long the audit trail is kept; 0 is for ever.
	AuditRetention time.Duration
	// Bus tells other parts whose credentials have changed; nil tells nobody, and they
	// believe what they know for a minute.
	Bus Publisher
	// Log may be nil where neither Run nor Bus is used.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// The nouns, by the names that they have in the service.
type (
	users         = identity.Service
	organisations = orgs.Service
	logins        = credentials.Service
	platforms     = federation.Service
	records       = runs.Service
)

// Service implements platformv1.PlatformServiceServer: the calls are those of its
// nouns. Make it with New.
type Service struct {
	platformv1.UnsafePlatformServiceServer
	*users
	*organisations
	*logins
	*platforms
	*records
	trail     audit.Trail
	deps      Deps
	needs     map[string]requirement
	operators *htpasswd.Accounts
}

// New makes the service. The tables must be there.
func New(d Deps) (*Service, error) {
	operators, err := htpasswd.Read(htpasswd.File{Path: d.OperatorAccounts, Calls: "Operator calls", Account: "an operator"})
	if err != nil {
		return nil, err
	}
	s := &Service{trail: audit.Trail{DB: d.DB, Now: d.Now}, deps: d, needs: requirements(), operators: operators}
	changed := rights{d.Bus, d.Log}
	s.users = identity.New(identity.Deps{
		DB: d.DB, Endpoint: d.Endpoint, Pages: d.Pages, OIDC: d.OIDC, Keys: d.Keys, Limiter: d.Limiter, CallLimit: d.CallLimit, Now: d.Now,
	})
	s.organisations = orgs.New(orgs.Deps{
		DB: d.DB, Users: s.users, Rights: changed, Kept: []string{credentials.Table, runs.Table}, Now: d.Now,
	})
	s.logins = credentials.New(credentials.Deps{
		DB: d.DB, Users: s.users, Workspaces: s.organisations, Keys: d.Keys, Trail: s.trail, Rights: changed, AdminLogins: d.AdminLogins, Now: d.Now,
	})
	s.platforms = federation.New(federation.Deps{DB: d.DB, Trusted: d.Foreign, Records: s.logins, Keys: d.Keys, Trail: s.trail, Now: d.Now})
	s.records = runs.New(runs.Deps{DB: d.DB, Pages: d.Pages, Now: d.Now})
	return s, nil
}

// Run removes what nobody needs any more from time to time, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	sweep := time.NewTicker(10 * time.Minute)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			if err := s.sweep(ctx); err != nil {
				s.deps.Log.WarnContext(ctx, "Old rows were not removed", "err", err)
			}
		}
	}
}

// sweep removes what has ended, and the audit trail's old part. Replicas may do it
// at once.
func (s *Service) sweep(ctx context.Context) error {
	err := errors.Join(s.users.Sweep(ctx), s.platforms.Sweep(ctx))
	if s.deps.AuditRetention > 0 {
		err = errors.Join(err, s.trail.Sweep(ctx, s.deps.Now().Add(-s.deps.AuditRetention)))
	}
	return err
}

// sealed are the tables with rows that a master key wraps.
func (s *Service) sealed() vault.Tables {
	return vault.Tables{DB: s.deps.DB, Names: append(federation.SealedTables(), credentials.Table)}
}

// CheckKeys says whether every stored secret can be opened; a process that cannot
// must not start. The error names the key that is missing.
func (s *Service) CheckKeys(ctx context.Context) error {
	return s.sealed().Check(ctx, s.deps.Keys)
}

// RotateKeys wraps every data key with the current master key and returns how many it
// changed. It may run while the service is used.
func (s *Service) RotateKeys(ctx context.Context) (int, error) {
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return 0, err
	}
	return s.sealed().Rotate(ctx, keys)
}

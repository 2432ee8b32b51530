// Package platform owns users and their access tokens, organisations and
// workspaces with who may do what in them, credentials, and the runs that
// workflows report. It never pulls an image. The truth is the tables platform_*:
// of a token only a hash is kept, of a secret only what the master key opens.
package platform

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
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
	// Foreign is other platforms that are believed.
	Foreign Foreign
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
	records       = runs.Service
)

// Service implements platformv1.PlatformServiceServer: the calls are those of its
// nouns. Make it with New.
type Service struct {
	platformv1.UnsafePlatformServiceServer
	*users
	*organisations
	*records
	store     store
	trail     audit.Trail
	rights    rights
	deps      Deps
	needs     map[string]requirement
	operators *htpasswd.Accounts
	foreign   *foreigners
}

// New makes the service. The tables must be there.
func New(d Deps) (*Service, error) {
	ops, err := htpasswd.Read(htpasswd.File{Path: d.OperatorAccounts, Calls: "Operator calls", Account: "an operator"})
	if err != nil {
		return nil, err
	}
	who := identity.New(identity.Deps{DB: d.DB, Endpoint: d.Endpoint, OIDC: d.OIDC, Keys: d.Keys, Limiter: d.Limiter, CallLimit: d.CallLimit, Now: d.Now})
	told := rights{d.Bus, d.Log}
	where := orgs.New(orgs.Deps{DB: d.DB, Users: who, Rights: told, Kept: []string{"platform_credentials", "platform_workflows"}, Now: d.Now})
	return &Service{records: runs.New(runs.Deps{DB: d.DB, Endpoint: d.Endpoint, Now: d.Now}), users: who, organisations: where, rights: told, store: store{d.DB}, trail: audit.Trail{DB: d.DB, Now: d.Now}, deps: d, needs: requirements(), operators: ops, foreign: newForeigners(d)}, nil
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
	now := s.deps.Now()
	err := errors.Join(s.users.Sweep(ctx), s.store.deleteEnded(ctx, now), s.store.deleteGrants(ctx, now.Add(-grantTTL)))
	if s.deps.AuditRetention > 0 {
		err = errors.Join(err, s.trail.Sweep(ctx, now.Add(-s.deps.AuditRetention)))
	}
	return err
}

// sealed are the tables with rows that a master key wraps.
func (s *Service) sealed() vault.Tables {
	return vault.Tables{DB: s.deps.DB, Names: []string{"platform_credentials", "platform_grants", "platform_peers"}}
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

// Authorize says who an access token belongs to.
func (s *Service) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest) (*platformv1.AuthorizeResponse, error) {
	if req.GetWorkspaceId() < 0 {
		return nil, fault.Invalid.Newf("A workspace id is not negative")
	}
	if endpoint := strings.TrimRight(req.GetEndpoint(), "/"); !s.isOwn(endpoint) {
		if err := s.foreign.believe(endpoint, s.deps.Endpoint); err != nil {
			return nil, err
		}
		id, err := s.foreign.authorize(ctx, req, endpoint)
		return &platformv1.AuthorizeResponse{Identity: id}, err
	}
	u, err := s.Holder(ctx, req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	if _, _, err := s.EnterWorkspace(ctx, u.ID, req.GetWorkspaceId()); err != nil {
		return nil, err
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{
		Endpoint: s.deps.Endpoint, UserId: u.ID, UserName: u.Name, Email: u.Email,
		WorkspaceId: req.GetWorkspaceId(),
	}}, nil
}

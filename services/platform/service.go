// Package platform is the service for users, organisations and credentials. It combines its
// subpackages: identity owns users, tokens and sign-in; orgs owns organisations and workspaces;
// credentials owns logins for registries and channels; federation connects other platforms; runs
// owns the reports of workflows; webhooks sends events to addresses of users; quota owns the limits
// of single organisations, workspaces and users; vexdocs owns OpenVEX documents; audit owns the audit trail. This package serves
// their gRPC services, and AccessService for the other services of the program. It defines the
// access rules of all calls, and dispatches calls of other services to this platform or to a
// connected one. It owns no tables and never pulls an image.
package platform

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sink"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/credentials"
	"slipway.dev/services/platform/federation"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/migrations"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/quota"
	"slipway.dev/services/platform/runs"
	"slipway.dev/services/platform/vault"
	"slipway.dev/services/platform/vexdocs"
	"slipway.dev/services/platform/webhooks"
)

// Migrations returns the schema migrations of this service, for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// Deps are the dependencies of a Service.
type Deps struct {
	DB *sqldb.DB
	// Endpoint is the platform's own public address, without a slash at the end. Aliases are
	// its other addresses.
	Endpoint string
	Aliases  []string
	// Pages is the base address of the web pages, without a slash at the end.
	Pages string
	// Foreign lists the other platforms that are trusted.
	Foreign federation.Trusted
	// OIDC is the provider at which users may sign in.
	OIDC identity.OIDC
	// GroupRoles are the roles of groups at that provider.
	GroupRoles []orgs.GroupRole
	// AdminLogins are additional logins of the first user, by registry host or host/path.
	AdminLogins map[string]upstream.Login
	// Keys encrypts secrets. If it is nil, no secrets can be stored (see CheckKeys).
	Keys *vault.Keys
	// Limiter limits calls of users and anonymous clients; nil means no limits.
	Limiter *ratelimit.Limiter
	// OperatorAccounts is the path of an htpasswd file; "" disables operator calls.
	OperatorAccounts string
	// Version and Commit identify the build of the program.
	Version, Commit string
	// MaxTokenLife is the maximum lifetime of new access tokens; 0 means no maximum.
	MaxTokenLife time.Duration
	// AuditRetention is how long events of the audit log are retained; 0 means forever.
	AuditRetention time.Duration
	// AuditSink is where events of the audit log are also written; nil means nowhere.
	AuditSink sink.Target
	// RequestRetention is how long the container service stores requests after their names
	// expired; 0 means forever.
	RequestRetention time.Duration
	// Bus publishes changes of credentials and roles. If it is nil, other services use cached
	// logins for up to a minute (credentials.LoginTTL).
	Bus Publisher
	// Events is the connection on which events for webhooks arrive; nil disables webhooks.
	Events *nats.Conn
	// Receivers connects to the receivers of webhooks. It must apply the egress rules.
	Receivers http.RoundTripper
	// Metrics registers the metrics of webhooks; nil discards them.
	Metrics prometheus.Registerer
	// Log receives errors that do not fail a call; nil discards them.
	Log *slog.Logger
	// Now returns the current time.
	Now func() time.Time
}

// Aliases name the embedded services, whose types all have the name Service.
type (
	users         = identity.Service
	organisations = orgs.Service
	logins        = credentials.Service
	platforms     = federation.Service
	records       = runs.Service
	trail         = audit.Service
	hooks         = webhooks.Service
	quotas        = quota.Service
	vexDocuments  = vexdocs.Service
)

// Service implements the gRPC services of the platform with the methods of the embedded
// services. Create it with New.
type Service struct {
	platformv1.UnsafeAccessServiceServer
	platformv1.UnsafeIdentityServiceServer
	platformv1.UnsafeOrganizationServiceServer
	platformv1.UnsafeCredentialServiceServer
	platformv1.UnsafeRunServiceServer
	platformv1.UnsafeAuditServiceServer
	platformv1.UnsafeWebhookServiceServer
	platformv1.UnsafeLimitServiceServer
	platformv1.UnsafeVexServiceServer
	*users
	*organisations
	*logins
	*platforms
	*records
	*trail
	*hooks
	*quotas
	*vexDocuments
	audit     audit.Log
	forwarder *audit.Forwarder
	deps      Deps
	needs     map[string]requirement
	operators *htpasswd.Accounts
}

// New returns a Service. The tables must exist.
func New(d Deps) (*Service, error) {
	operators, err := htpasswd.Read(htpasswd.File{Path: d.OperatorAccounts, Calls: "Operator calls", Account: "an operator"})
	if err != nil {
		return nil, err
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	log := audit.Log{DB: d.DB, Now: d.Now, Limiter: d.Limiter, Errors: d.Log}
	s := &Service{audit: log, trail: &trail{Log: log}, deps: d, needs: requirements(), operators: operators}
	s.forwarder = audit.NewForwarder(log, d.AuditSink, d.Log, d.Metrics)
	changed := notifier{d.Bus, d.Log}
	s.users = identity.New(identity.Deps{
		DB: d.DB, Endpoint: d.Endpoint, Pages: d.Pages, OIDC: d.OIDC, Keys: d.Keys, Limiter: d.Limiter, Log: d.Log, Audit: s.audit, MaxTokenLife: d.MaxTokenLife, Now: d.Now,
	})
	s.organisations = orgs.New(orgs.Deps{
		DB: d.DB, Users: s.users, Audit: s.audit, Notifier: changed, WorkspaceTables: []string{credentials.Table, runs.Table}, GroupRoles: d.GroupRoles, Log: d.Log, Now: d.Now,
	})
	s.users.FollowGroups(s.organisations)
	s.users.FollowInvitations(s.organisations)
	s.logins = credentials.New(credentials.Deps{
		DB: d.DB, Users: s.users, Workspaces: s.organisations, Keys: d.Keys, Audit: s.audit, Notifier: changed, AdminLogins: d.AdminLogins, Log: d.Log, Now: d.Now,
	})
	s.platforms = federation.New(federation.Deps{DB: d.DB, Trusted: d.Foreign, Records: s.logins, Keys: d.Keys, Audit: s.audit, Now: d.Now})
	s.hooks = webhooks.New(webhooks.Deps{
		DB: d.DB, Bus: d.Events, Transport: d.Receivers, Keys: d.Keys, Limiter: d.Limiter, Audit: s.audit, Endpoint: d.Endpoint, Aliases: d.Aliases, Pages: d.Pages,
		Version: d.Version, Metrics: d.Metrics, Log: d.Log, Now: d.Now,
	})
	s.quotas = quota.New(quota.Deps{
		DB: d.DB, Endpoint: d.Endpoint, Limiter: d.Limiter, Audit: s.audit, RequestRetention: d.RequestRetention, Changed: changed.limitsChanged, Now: d.Now,
	})
	s.vexDocuments = vexdocs.New(vexdocs.Deps{DB: d.DB, Users: s.users, Workspaces: s.organisations, Audit: s.audit, Now: d.Now})
	s.records = runs.New(runs.Deps{DB: d.DB, Pages: d.Pages, Now: d.Now})
	return s, nil
}

// Run sends events to webhooks, writes audit events to AuditSink, and deletes expired rows every
// ten minutes, until ctx is cancelled.
func (s *Service) Run(ctx context.Context) error {
	sending := make(chan error, 1)
	go func() { sending <- s.hooks.Run(ctx) }()
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	if s.deps.AuditSink != nil {
		forwarding.Go(func() { s.forwarder.Run(ctx) })
	}
	sweep := time.NewTicker(10 * time.Minute)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return <-sending
		case <-sweep.C:
			if err := s.sweep(ctx); err != nil {
				s.deps.Log.WarnContext(ctx, "Deleting expired rows failed; it is tried again in ten minutes", "err", err)
			}
		}
	}
}

// sweep deletes expired rows, and audit events older than AuditRetention. Replicas may call it
// concurrently.
func (s *Service) sweep(ctx context.Context) error {
	err := errors.Join(s.users.Sweep(ctx), s.organisations.Sweep(ctx), s.platforms.Sweep(ctx), s.hooks.Sweep(ctx))
	if s.deps.AuditRetention > 0 {
		err = errors.Join(err, s.audit.Sweep(ctx, s.deps.Now().Add(-s.deps.AuditRetention)))
	}
	return err
}

// CheckAuditSink returns an error if events of the audit log wait for AuditSink longer than they
// should.
func (s *Service) CheckAuditSink(ctx context.Context) error { return s.forwarder.Check(ctx) }

// VerifyAudit checks the chain of the audit trail, as audit.Log.Verify does.
func (s *Service) VerifyAudit(ctx context.Context, known ...audit.Position) (audit.Position, error) {
	return s.audit.Verify(ctx, known...)
}

// sealedTables returns the tables whose rows contain envelopes.
func (s *Service) sealedTables() vault.Tables {
	return vault.Tables{DB: s.deps.DB, Names: append(federation.SealedTables(), credentials.Table, webhooks.Table)}
}

// CheckKeys returns an error that names the key if a master key that is in use is missing. The
// process must not start after such an error.
func (s *Service) CheckKeys(ctx context.Context) error {
	return s.sealedTables().Check(ctx, s.deps.Keys)
}

// RotateKeys wraps every data key with the current master key and returns the number of changed
// rows. It may run while the service handles requests.
func (s *Service) RotateKeys(ctx context.Context) (int, error) {
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return 0, err
	}
	return s.sealedTables().Rotate(ctx, keys)
}

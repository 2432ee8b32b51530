// Package container owns container requests: it checks them, gives each a name
// that can be pulled, and tells the registry what stands behind a name. It never
// serves a pull, and builds nothing itself: it reads recipes (container/dockerfile,
// container/conda), and has the build room make what they describe. The truth is the
// tables container_*; Redis holds a copy of every live token (prefix
// `container:token:`), which is made again from SQL when it is lost. Both keep hashes
// of tokens alone. A revocation is published on the subject `container.revoked`.
package container

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/layers"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are this room's changes of the schema, for sqldb.DB.Migrate.
func Migrations() fs.FS { return sqldb.Folder(migrations) }

// Publisher sends a message to whoever listens, without waiting for them.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// Deps is what the service works with.
type Deps struct {
	DB       *sqldb.DB
	Redis    redis.UniversalClient
	Bus      Publisher
	Platform platformv1.PlatformServiceClient
	// Build makes images; nil where nothing does.
	Build buildv1.BuildServiceClient
	// Conda knows which packages a request stands for; nil where nothing does.
	Conda    condav1.CondaServiceClient
	Upstream *upstream.Client
	Keychain *caller.Keychain
	// Limiter counts requests; nil counts none.
	Limiter *ratelimit.Limiter
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time

	Settings
}

// Settings are the service's choices.
type Settings struct {
	// Host goes into the names that requests are given, e.g. "slipway.example.org".
	Host string
	// PublicURL is the base of addresses in responses, without a slash at the
	// end; "" is https and Host.
	PublicURL string
	// Builds is where built images go that have no repository of their user's. The
	// zero value switches building off.
	Builds Builds
	// OwnRepositories are further "<registry>/<path>" that belong to the service,
	// such as its build cache: no request may name them, nor what is below them.
	OwnRepositories []string
	// AnonymousAccess says whether requests without an access token are served.
	AnonymousAccess bool
	// TokenTTL is how long a name works.
	TokenTTL time.Duration
	// Retention is how long a request is kept after that; 0 is for ever.
	Retention time.Duration
	// RequestsUser and RequestsAnonymous limit what one caller may ask for.
	RequestsUser, RequestsAnonymous ratelimit.Limit
	// PullsUser and PullsAnonymous limit downloads of Singularity images, which are
	// charged as pulls are.
	PullsUser, PullsAnonymous ratelimit.Limit
	// CondaSolveWait is how long a request for Conda packages waits for its solution;
	// 0 is not at all.
	CondaSolveWait time.Duration
	// CondaLockTTL is for how long the same request stands for the same Conda packages;
	// 0 is not at all.
	CondaLockTTL time.Duration
	// CondaImages are those of requests for Conda packages that name none.
	CondaImages conda.Images
	// LayerStore is how many bytes of layers are kept; 0 is no bound.
	LayerStore int64
	// TokenMemory is how many bytes of tokens Redis is given; 0 is no bound.
	TokenMemory int64
	// OperatorAccounts is an htpasswd file; "" switches operator calls off.
	OperatorAccounts string
	// Version is the program's, and Commit what it was built from.
	Version, Commit string
}

// Builds names the service's own build repository.
type Builds struct {
	// Registry is its host, e.g. "127.0.0.1:9090".
	Registry string
	// Repository is the path, e.g. "builds".
	Repository string
}

// Service implements containerv1.ContainerServiceServer. Make it with New.
type Service struct {
	containerv1.UnimplementedContainerServiceServer
	deps      Deps
	store     store.Store
	tokens    tokens.Cache
	sources   *sources.Sources
	links     *layers.Links
	operators *htpasswd.Accounts
	// unpacking are the turns at uncompressing layers.
	unpacking chan struct{}
	space     *sqldb.Space
}

// New makes the service. The tables must be there.
func New(d Deps) (*Service, error) {
	ops, err := htpasswd.Read(htpasswd.File{Path: d.OperatorAccounts, Calls: "Operator calls", Account: "an operator"})
	if err != nil {
		return nil, err
	}
	return &Service{
		deps:      d,
		store:     store.New(d.DB),
		tokens:    tokens.NewCache(d.Redis, d.Log, d.TokenMemory),
		sources:   sources.New(d.Upstream, d.Keychain),
		links:     layers.NewLinks(d.Upstream, d.Log),
		operators: ops,
		unpacking: make(chan struct{}, runtime.GOMAXPROCS(0)),
		space:     sqldb.NewSpace(d.DB, "container_layers", d.LayerStore),
	}, nil
}

// Run does what is due from time to time, until ctx ends: it repeats revocations
// that did not get through, renews names whose run goes on, and removes what
// nobody needs any more.
func (s *Service) Run(ctx context.Context) error {
	resend := time.NewTicker(15 * time.Second)
	defer resend.Stop()
	sweep := time.NewTicker(10 * time.Minute)
	defer sweep.Stop()
	renew := time.NewTicker(s.renewEvery())
	defer renew.Stop()
	s.hashTokens(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			s.renew(ctx)
		case <-resend.C:
			s.resendRevocations(ctx)
		case <-sweep.C:
			s.sweep(ctx)
		}
	}
}

func (s *Service) sweep(ctx context.Context) {
	now := s.deps.Now()
	s.hashTokens(ctx)
	if err := s.store.DeleteLayers(ctx, now); err != nil {
		s.deps.Log.WarnContext(ctx, "Expired layers were not removed", "err", err)
	}
	if err := s.store.DeleteLocks(ctx, now.Add(-s.deps.CondaLockTTL)); err != nil {
		s.deps.Log.WarnContext(ctx, "Old locks were not forgotten", "err", err)
	}
	if s.deps.Retention == 0 {
		return
	}
	if err := s.store.DeleteRequests(ctx, now.Add(-s.deps.Retention)); err != nil {
		s.deps.Log.WarnContext(ctx, "Old requests were not removed", "err", err)
	}
}

// hashTokens puts requests that are kept under their token under its key instead:
// those of a release that kept tokens, which may go on while this one starts.
func (s *Service) hashTokens(ctx context.Context) {
	for {
		n, err := s.store.HashSome(ctx)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "Tokens in the database were not hashed; it is tried again", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// Package container owns container requests: it checks them, gives each a name
// that can be pulled, and tells the registry what stands behind a name. It never
// serves a pull, and builds nothing itself: it reads recipes (container/dockerfile,
// container/conda), and has the build room make what they describe. The truth is the
// tables container_*; Redis holds a copy of every live token (prefix
// `container:token:`), which is made again from SQL when it is lost. Both keep hashes
// of tokens alone. A revocation is published on the subject `container.revoked`.
package container

import (
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/layers"
	"slipway.dev/services/container/migrations"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
)

// Migrations are this room's changes of the schema, for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

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

// owns says whether a repository is one of the service's own, or below it. What
// is in there is reached through token names alone.
func (s Settings) owns(registry, repository string) bool {
	own := s.OwnRepositories
	if s.Builds != (Builds{}) {
		own = append([]string{s.Builds.Registry + "/" + s.Builds.Repository}, own...)
	}
	for _, o := range own {
		host, path, _ := strings.Cut(o, "/")
		if oci.SameHost(registry, host) && strings.HasPrefix(repository+"/", path+"/") {
			return true
		}
	}
	return false
}

// tokenIn is the token in a name that this service gave out; "" for any other image.
func (s Settings) tokenIn(image oci.Reference) string {
	rest, ok := strings.CutPrefix(image.Repository, "wt/")
	token, _, _ := strings.Cut(rest, "/")
	if !ok || s.Host == "" || !oci.SameHost(image.Registry, s.Host) || !tokens.Is(token) {
		return ""
	}
	return token
}

// Package container owns container requests: it validates them, issues a pullable name for
// each, and resolves names for the registry. It serves no pulls and builds nothing: it
// reads recipes (internal/dockerfile, container/conda), and submits them to the build
// service. The tables container_* are authoritative; Redis caches the plans of all
// unexpired tokens (prefix `container:token:`), and is refilled from SQL if it is lost.
// Both only store hashes of tokens. Revocations are published on the subject
// `container.revoked`.
package container

import (
	"cmp"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/layers"
	"slipway.dev/services/container/migrations"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
)

// Migrations returns the schema migrations of this service for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// A Publisher sends messages to subscribers without waiting for them.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// Deps are the dependencies of the service.
type Deps struct {
	DB    *sqldb.DB
	Redis redis.UniversalClient
	Bus   Publisher
	// Events is the connection for events of containers; nil publishes none.
	Events   *nats.Conn
	Platform platformv1.AccessServiceClient
	// Build builds images; nil if builds are disabled.
	Build buildv1.BuildServiceClient
	// Conda solves requests for Conda packages; nil if solving is disabled.
	Conda condav1.CondaServiceClient
	// Inspect finds known vulnerabilities; nil if images are not scanned.
	Inspect  inspectv1.InspectServiceClient
	Upstream *upstream.Client
	// Control pushes statements about built images to their registries.
	Control *upstream.Control
	// Reads reads the images that requests name, through Upstream. If nil, nothing is kept.
	Reads    *pullthrough.Reader
	Keychain *caller.Keychain
	// Limiter counts requests; nil for no limits.
	Limiter *ratelimit.Limiter
	// Turns are the process's turns to parse and uncompress parts of requests.
	Turns fairshare.Turns
	// Policy applies the rules of the operator; nil permits everything.
	Policy *enforce.Enforcer
	// Signing holds the keys for statements about images.
	Signing Signing
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now returns the current time.
	Now func() time.Time

	Settings
}

// Settings configure the service.
type Settings struct {
	// Host is the host in issued names, e.g. "slipway.example.org".
	Host string
	// PublicURL is the base of URLs in responses without a trailing slash; "" is https and
	// Host.
	PublicURL string
	// Builds is the repository for built images whose request names none. The zero value
	// disables builds.
	Builds Builds
	// OwnRepositories lists further "<registry>/<path>" that belong to the service, such as
	// its build cache. Requests may not name them or repositories below them.
	OwnRepositories []string
	// EmbeddedStore is the host of the embedded image store; "" if images are stored elsewhere.
	EmbeddedStore string
	// AnonymousAccess allows requests without an access token.
	AnonymousAccess bool
	// Keep is who may keep images: KeepOff, KeepUsers or KeepAll.
	Keep string
	// KeepPackages stores the packages of kept images beside them.
	KeepPackages bool
	// TokenTTL is how long a name is valid.
	TokenTTL time.Duration
	// Retention is how long a request is stored after its name expires; 0 is forever.
	Retention time.Duration
	// CondaSolveWait is how long a request for Conda packages waits for its solution before
	// it is queued unsolved; 0 disables waiting.
	CondaSolveWait time.Duration
	// CondaLockTTL is how long the same request resolves to the same Conda packages; 0 is
	// forever.
	CondaLockTTL time.Duration
	// CondaDefaults are the default images of requests for Conda packages.
	CondaDefaults conda.Defaults
	// LayerStore is the maximum size of stored layers in bytes; 0 means no limit.
	LayerStore int64
	// TokenMemory is the maximum size of tokens in Redis in bytes; 0 means no limit.
	TokenMemory int64
	// OperatorAccounts is an htpasswd file; "" disables operator calls.
	OperatorAccounts string
	// Version is the version of the program, and Commit the commit that it was built from.
	Version, Commit string
}

// Builds is the service's own build repository.
type Builds struct {
	// Registry is its host, e.g. "127.0.0.1:9090".
	Registry string
	// Repository is its path, e.g. "builds".
	Repository string
}

// Service implements containerv1.ContainerServiceServer. Use New to create it.
type Service struct {
	containerv1.UnimplementedContainerServiceServer
	deps      Deps
	store     store.Store
	tokens    tokens.Cache
	sources   *sources.Sources
	links     *layers.Links
	operators *htpasswd.Accounts
	space     *sqldb.Quota
	solver    solver
	// statements caches the signed statements about images.
	statements *statements
	// batches divides the requests of batches that are handled concurrently among clients.
	batches *fairshare.Pool
	// results counts the results of the requests of batches by status code.
	results   *prometheus.CounterVec
	attaching attacher
	events    jetstream.JetStream // nil publishes no events
	// indexing is held while requests are connected with their packages.
	indexing chan struct{}
	scanner  *scanner
	vex      vexReader
}

// New returns a service. The tables must exist.
func New(d Deps) (*Service, error) {
	ops, err := htpasswd.Read(htpasswd.File{Path: d.OperatorAccounts, Calls: "Operator calls", Account: "an operator"})
	if err != nil {
		return nil, err
	}
	var events jetstream.JetStream
	if d.Events != nil {
		if events, err = jetstream.New(d.Events); err != nil {
			return nil, err
		}
	}
	batches, results := newBatches(d.Metrics)
	s := &Service{
		indexing:   make(chan struct{}, 1),
		batches:    batches,
		results:    results,
		attaching:  newAttacher(d.Metrics),
		deps:       d,
		events:     events,
		store:      store.New(d.DB),
		tokens:     tokens.NewCache(d.Redis, d.Log, d.TokenMemory),
		sources:    sources.New(d.Upstream, cmp.Or(d.Reads, pullthrough.Direct(d.Upstream)), d.Keychain),
		links:      layers.NewLinks(d.Upstream, d.Metrics, d.Log),
		operators:  ops,
		space:      sqldb.NewQuota(d.DB, "container_layers", d.LayerStore),
		solver:     newSolver(d.Metrics),
		statements: newStatements(),
		scanner:    newScanner(d.Metrics),
		vex:        newVEXReader(d),
	}
	if signer := d.Signing.Signer; signer != nil {
		s.deps.Signing.Signer = signer.Storing(signatures{s})
	}
	return s, nil
}

// owns reports whether a repository is one of the service's own, or below one. The content of
// these repositories is only accessible by issued names.
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

// tokenIn returns the token in an issued name, or the ID of a kept image; "" for any other image.
func (s Settings) tokenIn(image oci.Reference) string {
	name, ok := oci.ParseIssued(image.Repository)
	if !ok || s.Host == "" || !oci.SameHost(image.Registry, s.Host) || !tokens.Is(name.Token) && !oci.IsKeptID(name.Token) {
		return ""
	}
	return name.Token
}

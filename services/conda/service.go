// Package conda solves requests for Conda packages: it returns the artifacts that satisfy a
// request, or explains why none do and suggests alternatives (gateway/contract/conda.md).
// It caches the package lists of channels (package channel) and solves with them (package
// solver). It builds nothing and fetches no packages. Replicas need no coordination.
package conda

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/ratelimit"
)

// Deps are the dependencies of the service.
type Deps struct {
	Platform platformv1.AccessServiceClient
	// Build reports which packages exist as layers; nil if builds are disabled.
	Build    buildv1.BuildServiceClient
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	// Channels holds the package lists. The service runs it.
	Channels *channel.Store
	// WheelHosts are the hosts of wheels that locks may have.
	WheelHosts WheelHosts
	Metrics    prometheus.Registerer
	// Turns divides the processors among clients while environment files and locks are parsed.
	Turns fairshare.Turns
	// MinAge is the minimum age of packages (conda_min_age); 0 means no minimum.
	MinAge time.Duration
	// Now returns the current time.
	Now func() time.Time
	// AnonymousAccess allows callers without an access token.
	AnonymousAccess bool
}

// Service implements condav1.CondaServiceServer. Use New to create it, then Run it.
type Service struct {
	condav1.UnimplementedCondaServiceServer
	deps   Deps
	solved *prometheus.HistogramVec
	shares shares
	// records holds the records that solves use.
	records recordCache
}

// New returns a service.
func New(d Deps) *Service {
	s := &Service{deps: d, solved: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "slipway_conda_solve_seconds", Help: "Time to solve a request for one platform, by outcome: solved, unsatisfiable or failed.",
		Buckets: []float64{.005, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20},
	}, []string{"outcome"}), shares: newShares(), records: newRecordCache()}
	d.Metrics.MustRegister(s.solved, s.shares.solves, s.shares.memory, s.shares.reads)
	return s
}

// Run refreshes the package lists until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.deps.Channels.Run(ctx) }

// identify authenticates a caller and counts the call.
func (s *Service) identify(ctx context.Context, claim caller.Claim) (caller.ID, error) {
	who, err := caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess}.Identify(ctx, claim)
	if err != nil {
		return caller.ID{}, err
	}
	id := caller.Of(who)
	_, err = s.deps.Limiter.ChargeCaller(ctx, ratelimit.Searches, id.Charged(ctx), 1)
	return id, err
}

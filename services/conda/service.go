// Package conda knows what a request for Conda packages stands for: which artifacts,
// or why there is no such environment, and what there would be
// (gateway/contract/conda.md). It owns copies of channels' lists (package channel),
// which can be lost, and solves against them (package solver). It builds nothing and
// fetches no package. Several processes need no coordination.
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
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// Deps is what the service works with.
type Deps struct {
	Platform platformv1.PlatformServiceClient
	// Build says which packages are there as layers; nil where nothing is built.
	Build    buildv1.BuildServiceClient
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	// Channels are the lists of packages. The service runs them.
	Channels *channel.Store
	Metrics  prometheus.Registerer
	// Now is the clock.
	Now func() time.Time
	// AnonymousAccess says whether callers without an access token are served.
	AnonymousAccess bool
	// SearchesUser and SearchesAnonymous limit the solves and searches of a user or a
	// client's address, which no container request counts among.
	SearchesUser, SearchesAnonymous ratelimit.Limit
}

// Service implements condav1.CondaServiceServer. Make it with New, then Run it.
type Service struct {
	condav1.UnimplementedCondaServiceServer
	deps   Deps
	solved *prometheus.HistogramVec
	// atOnce are the calls that look at records.
	atOnce *ratelimit.AtOnce
}

// New makes the service.
func New(d Deps) *Service {
	s := &Service{deps: d, solved: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "slipway_conda_solve_seconds", Help: "Time to solve a request for one platform, by outcome: solved, unsatisfiable or failed.",
		Buckets: []float64{.005, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20},
	}, []string{"outcome"}), atOnce: &ratelimit.AtOnce{
		What: "requests for Conda packages", Each: limits.CondaCallsOfClient, All: limits.CondaCallsAtOnce,
	}}
	d.Metrics.MustRegister(s.solved)
	return s
}

// Run keeps the channels until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.deps.Channels.Run(ctx) }

// identify lets a caller in, and counts the call.
func (s *Service) identify(ctx context.Context, claim caller.Claim) (caller.ID, error) {
	who, err := caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess}.Identify(ctx, claim)
	if err != nil {
		return caller.ID{}, err
	}
	id := caller.Of(who)
	limit := s.deps.SearchesAnonymous
	if !id.IsAnonymous() {
		limit = s.deps.SearchesUser
	}
	_, err = s.deps.Limiter.Charge(ctx, "searches", client(ctx, id), limit, 1)
	return id, err
}

// client is whose shares a call takes: a user's or an address's.
func client(ctx context.Context, who caller.ID) string {
	if who.IsAnonymous() {
		return rpc.CallFrom(ctx).Client()
	}
	return "user:" + who.User()
}

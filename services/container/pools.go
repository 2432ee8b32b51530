package container

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
)

// A solver limits and schedules the solving of Conda packages: of requests that wait for
// their response, and of builds that were queued unsolved.
type solver struct {
	// awaited divides the waiting requests among clients.
	awaited *fairshare.Pool
	// woken holds a token for each worker that should look for unsolved builds.
	woken chan struct{}
}

func newSolver(reg prometheus.Registerer) solver {
	s := solver{
		awaited: fairshare.New(fairshare.Config{Name: "container requests that wait for the solver", Capacity: limits.SolvesAwaited}),
		woken:   make(chan struct{}, limits.UnsolvedClaims),
	}
	reg.MustRegister(s.awaited)
	return s
}

// wake makes a worker look for unsolved builds now.
func (s solver) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // all workers are going to look anyway
	}
}

// newBatches returns the pool of requests of batches that are handled concurrently, and the number
// of their results by status code.
func newBatches(reg prometheus.Registerer) (*fairshare.Pool, *prometheus.CounterVec) {
	pool := fairshare.New(fairshare.Config{
		Name: "container requests in batches", Capacity: limits.BatchesConcurrency, PerClient: limits.BatchesConcurrencyClient,
		Reserved: limits.BatchesConcurrency / 4, MaxWaiting: limits.BatchesWaiting, MaxWaitingPerClient: limits.BatchesWaitingClient, MaxWait: limits.BatchWait,
	})
	results := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_batch_results_total", Help: "Results of container requests in batches, by gRPC status code. Equal requests of a batch are one.",
	}, []string{"code"})
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		results.WithLabelValues(c.String())
	}
	reg.MustRegister(pool, results)
	return pool, results
}

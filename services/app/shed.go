package app

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memory"
)

// A shedder rejects or delays requests when memory is short. A process has one. It is safe for
// concurrent use.
type shedder struct {
	guard *memory.Guard
	shed  *prometheus.CounterVec
	// small and large divide the memory for request bodies, in bytes. Bodies up to
	// gateway.SmallBody never wait for the memory of larger ones.
	small, large *fairshare.Pool
	// turns divides the processors among the bodies to decode.
	turns fairshare.Turns
	// mostSmall and mostLarge are the maximum memory that is counted for one body, in bytes.
	mostSmall, mostLarge int64
}

func newShedder(limit, bodies int64, turns fairshare.Turns, reg prometheus.Registerer) *shedder {
	total := bodyMemory(bodies, limit)
	each := max(total/2, min(total*3/4, limits.BodyCopies*limits.RequestBody)) // other clients have a quarter
	s := &shedder{
		guard: memory.NewGuard(limit), turns: turns, mostSmall: total / 8, mostLarge: each,
		small: fairshare.New(fairshare.Config{
			Name: "request bodies", Capacity: total / 4, PerClient: total / 8, MaxWaiting: limits.BodiesWaiting, MaxWait: limits.SmallBodyWait,
		}),
		large: fairshare.New(fairshare.Config{
			Name: "large request bodies", Capacity: total, PerClient: each, MaxWaiting: limits.BodiesWaiting, MaxWait: limits.BodyWait,
		}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_requests_shed_total",
			Help: "Requests rejected with 503 to keep this process within its memory, by reason: memory (near memory_limit).",
		}, []string{"reason"}),
	}
	reg.MustRegister(s.shed, s.small, s.large)
	return s
}

// bodyMemory returns the memory for large request bodies in bytes: the configured value, or
// the smaller of 256 MiB and a quarter of the limit.
func bodyMemory(set, limit int64) int64 {
	const usual = 256 << 20
	switch {
	case set > 0:
		return set
	case limit > 0:
		return min(limit/4, usual)
	}
	return usual
}

// refuses rejects an expensive or repeatable request if memory is short, and reports
// whether it did.
func (s *shedder) refuses(w http.ResponseWriter, r *http.Request) bool {
	share := memory.Full
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		share = memory.Busy
	} else if !strings.HasPrefix(r.URL.Path, "/v2/") {
		return false // status and similar requests cost nothing
	}
	if !s.guard.Over(share) {
		return false
	}
	s.shed.WithLabelValues("memory").Inc()
	w.Header().Set("Retry-After", "5")
	writeRefusal(w, r, http.StatusServiceUnavailable, "UNAVAILABLE", "The service is short of memory right now; try again in a moment")
	return true
}

package app

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memory"
)

// smallBody is what any request may send while others fill the memory for bodies: most
// need no more.
const smallBody = 64 << 10

// shedder refuses requests before they take the memory that the others need. One for
// the whole process; safe for concurrent use.
type shedder struct {
	guard *memory.Guard
	shed  *prometheus.CounterVec
	// most is how many bytes of bodies are held at a time.
	most int64

	mu      sync.Mutex
	held    int64
	clients map[string]int64
}

func newShedder(limit, bodies int64, reg prometheus.Registerer) *shedder {
	s := &shedder{
		guard: memory.NewGuard(limit), most: bodyMemory(bodies, limit), clients: map[string]int64{},
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_requests_shed_total",
			Help: "Requests answered 503 to keep this process within its memory, by reason: memory (near memory_limit) or bodies (body_memory is taken).",
		}, []string{"reason"}),
	}
	reg.MustRegister(s.shed)
	return s
}

// bodyMemory is what is set, else a sixteenth of the limit: a body is copied some times
// on its way. At least one of the largest passes.
func bodyMemory(set, limit int64) int64 {
	if set > 0 {
		return max(set, limits.RequestBody)
	}
	if limit == 0 {
		return 256 << 20
	}
	return min(max(limit/16, limits.RequestBody), 256<<20)
}

// refuses answers a request that costs much, or any that can be repeated, where there
// is no memory for it.
func (s *shedder) refuses(w http.ResponseWriter, r *http.Request) bool {
	share := memory.Full
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		share = memory.Busy
	} else if !strings.HasPrefix(r.URL.Path, "/v2/") {
		return false // status and the like cost nothing
	}
	if !s.guard.Over(share) {
		return false
	}
	s.shed.WithLabelValues("memory").Inc()
	const message = "The service is short of memory right now; try again in a moment"
	body := `{"message":"` + message + `"}`
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		body = `{"errors":[{"code":"UNAVAILABLE","message":"` + message + `"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, body)
	return true
}

// count has a request's body counted while it is read; release gives back what it
// holds, when it has been answered.
func (s *shedder) count(r *http.Request, client string) (release func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	c := &countedBody{ReadCloser: r.Body, shedder: s, client: client}
	r.Body = c
	return c.release
}

// countedBody answers gateway.ErrBusy where there is no place for more of it.
type countedBody struct {
	io.ReadCloser
	shedder *shedder
	client  string
	held    int64
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.shedder.take(b.client, int64(n), b.held+int64(n)) {
		b.shedder.shed.WithLabelValues("bodies").Inc()
		return 0, gateway.ErrBusy
	}
	b.held += int64(n)
	return n, err
}

func (b *countedBody) release() {
	b.shedder.mu.Lock()
	defer b.shedder.mu.Unlock()
	b.shedder.held -= b.held
	if b.shedder.clients[b.client] -= b.held; b.shedder.clients[b.client] <= 0 {
		delete(b.shedder.clients, b.client)
	}
	b.held = 0
}

// take counts n more bytes of a body that is so long by then. Small bodies have a
// quarter more to themselves, and no client has more than half, or one body.
func (s *shedder) take(client string, n, length int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, share := s.most, max(s.most/2, limits.RequestBody)
	if length <= smallBody {
		most, share = most+most/4, share+share/4
	}
	if s.held+n > most || s.clients[client]+n > share {
		return false
	}
	s.held += n
	s.clients[client] += n
	return true
}

// tokenMemory bounds the Redis inside this process; another has a bound of its own.
func (a *App) tokenMemory() int64 {
	if a.cfg.RedisURL != "" {
		return 0
	}
	return int64(a.cfg.TokenMemory)
}

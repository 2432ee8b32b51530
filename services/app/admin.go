package app

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// check asks one dependency whether it works.
type check struct {
	name     string
	required bool
	ask      func(context.Context) error
	// reached says whether it has worked once.
	reached *atomic.Bool
}

// A process is not ready before it has reached everything that is required;
// without something optional it goes on with less. What is lost later makes no
// process unready: others would be in the same place, and together they would be
// gone for pulls that need nothing of it.
const (
	required = true
	optional = false
)

func (a *App) check(name string, required bool, ask func(context.Context) error) {
	a.checks = append(a.checks, check{name, required, ask, &atomic.Bool{}})
}

// adminHandler serves the private port.
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /images", onThisMachine(a.listImages))
	mux.HandleFunc("POST /images/prune", onThisMachine(a.pruneImages))
	mux.HandleFunc("GET /debug/pprof/", onThisMachine(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", onThisMachine(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", onThisMachine(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", onThisMachine(pprof.Trace))
	return mux
}

// onThisMachine serves loopback alone, and no browser that was led there under
// another name: a profile costs CPU for as long as it is asked for, and tells how
// the service works inside, and images can be removed. The port itself may be open to
// probes and Prometheus.
func onThisMachine(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		named, err := netip.ParseAddr(host)
		peer, perr := netip.ParseAddrPort(r.RemoteAddr)
		if perr != nil || !peer.Addr().Unmap().IsLoopback() || host != "localhost" && (err != nil || !named.IsLoopback()) {
			http.Error(w, "This is for this machine alone: ask for http://127.0.0.1", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}

// state is one dependency in the answer of /readyz.
type state struct {
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Error    string `json:"error,omitempty"`
}

// states asks every dependency how it is, in the order of a.checks.
func (a *App) states(ctx context.Context) []state {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	states := make([]state, len(a.checks))
	var wg sync.WaitGroup
	for i, c := range a.checks {
		wg.Go(func() {
			states[i] = state{OK: true, Required: c.required}
			if err := c.ask(ctx); err != nil {
				states[i].OK, states[i].Error = false, err.Error()
				return
			}
			c.reached.Store(true)
		})
	}
	wg.Wait()
	return states
}

// readyz answers 200 when work may be sent here, 503 when not, and says of each
// dependency how it is now.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) {
	states := a.states(r.Context())
	ready := !a.draining.Load()
	byName := map[string]state{}
	for i, c := range a.checks {
		byName[c.name] = states[i]
		ready = ready && (c.reached.Load() || !c.required)
	}
	w.Header().Set("Content-Type", "application/json")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // the prober may be gone
		"ready": ready, "draining": a.draining.Load(), "dependencies": byName,
	})
}

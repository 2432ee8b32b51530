package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A check tests one dependency of the process.
type check struct {
	name     string
	required bool
	ask      func(context.Context) error
	// reached reports whether the dependency has worked once.
	reached *atomic.Bool
}

// A process is ready when it has reached every required dependency; without an optional one
// it works with fewer features. A dependency that fails later does not make a process
// unready: all replicas would be affected, and pulls that do not need it would fail, too.
// Only dependencies of the service itself are required. No check contacts a foreign host,
// such as a registry, a channel or a sign-in provider: an outage there must not stop a
// rollout here.
const (
	required = true
	optional = false
)

func newCheck(name string, required bool, ask func(context.Context) error) check {
	return check{name, required, ask, &atomic.Bool{}}
}

// checks returns the checks of this process.
func (a *App) checks() []check {
	var all []check
	for _, p := range a.parts {
		all = append(all, p.checks...)
	}
	return all
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

// onThisMachine only accepts clients on this machine, since profiles cost processor time and
// show internals, and images can be deleted. It rejects browsers that come here by DNS
// rebinding. The port itself may be open to probes and Prometheus.
func onThisMachine(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().Unmap().IsLoopback() || hostname(r.Host) != "localhost" && !isAddress(r.Host) {
			http.Error(w, "Only this machine may use this path: request it from http://127.0.0.1", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}

// state is the state of one dependency in the response of /readyz.
type state struct {
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Error    string `json:"error,omitempty"`
}

// states returns the state of every dependency, in the order of checks.
func states(ctx context.Context, checks []check) []state {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	states := make([]state, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
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

// readyz responds 200 if work may be sent here, and else 503, with the current state of
// each dependency.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) {
	checks := a.checks()
	states := states(r.Context(), checks)
	ready := !a.draining.Load()
	byName := map[string]state{}
	for i, c := range checks {
		byName[c.name] = states[i]
		ready = ready && (c.reached.Load() || !c.required)
	}
	w.Header().Set("Content-Type", "application/json")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may have disconnected
		"ready": ready, "draining": a.draining.Load(), "dependencies": byName,
	})
}

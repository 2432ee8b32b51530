package app

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/rpc"
)

// edge is what every public request passes first: it gets an id, the client's
// address, a span named by its route, and a line in the log.
func (a *App) edge(next http.Handler) (http.Handler, error) {
	proxies, err := config.ParseNetworks(a.cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	seconds := a.answers()
	tracer, headers := otel.Tracer("slipway.dev/edge"), propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		call := rpc.Call{RequestID: requestID(r), ClientIP: clientIP(r, proxies)}
		ctx := rpc.WithCall(headers.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), call)
		how, where := method(r), registryRoute(r.URL.Path)
		ctx, span := tracer.Start(gateway.WithRoute(ctx, &where), how, trace.WithSpanKind(trace.SpanKindServer))
		rec := &httprecord.Writer{ResponseWriter: w}
		w.Header().Set("X-Request-Id", call.RequestID)
		defer func() {
			if span.IsRecording() {
				span.SetName(how + " " + where)
				span.SetAttributes(attribute.Int("http.response.status_code", rec.Code))
			}
			span.End()
			if w.Header().Get("Content-Length") != "" {
				_ = http.NewResponseController(w).Flush() // nobody needs to wait for the log
			}
			if !strings.HasPrefix(where, "/v2") { // the registry measures itself
				seconds.WithLabelValues(how, where, strconv.Itoa(rec.Code)).Observe(time.Since(start).Seconds())
			}
			a.logRequest(ctx, r, rec, time.Since(start), call)
		}()
		if a.shedder.refuses(rec, r) {
			return
		}
		r = r.WithContext(ctx)
		defer a.shedder.count(r, call.Client())()
		next.ServeHTTP(rec, r)
	}), nil
}

// answers measures what both REST faces answer; it is made when the first asks.
func (a *App) answers() *prometheus.HistogramVec {
	if a.seconds != nil {
		return a.seconds
	}
	a.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_http_seconds",
		Help:    "Time until REST requests were answered in full, by method, route and status code; the registry's are in slipway_registry_seconds.",
		Buckets: []float64{.002, .01, .05, .2, 1, 5, 30},
	}, []string{"method", "route", "code"})
	a.reg.MustRegister(a.seconds)
	return a.seconds
}

func (a *App) logRequest(ctx context.Context, r *http.Request, w *httprecord.Writer, took time.Duration, call rpc.Call) {
	a.log.InfoContext(ctx, "Request",
		"method", r.Method, "path", redactPath(r.URL.Path), "status", w.Code, "bytes", w.Bytes,
		"ms", float64(took.Microseconds())/1000, "client", call.ClientIP.String(), "request_id", call.RequestID)
}

// requestID takes over a proxy's id when it is harmless, else makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	})
	if id != "" && len(id) <= 64 && plain {
		return id
	}
	return rand.Text()[:16]
}

// clientIP goes back along X-Forwarded-For for as long as proxies are trusted.
func clientIP(r *http.Request, proxies []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	ip := peer.Addr().Unmap()
	if !trusted(ip, proxies) {
		return ip
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return ip
		}
		if ip = hop.Unmap(); !trusted(ip, proxies) {
			return ip
		}
	}
	return ip
}

func trusted(ip netip.Addr, proxies []netip.Prefix) bool {
	for _, p := range proxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// redactPath shows four characters of a token: whoever reads logs must not be
// able to pull.
func redactPath(path string) string {
	for _, prefix := range []string{"/v2/wt/", "/v1alpha2/container/", "/container-token/"} {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		token, tail, slash := strings.Cut(rest, "/")
		if len(token) > 4 {
			token = token[:4] + "…"
		}
		if slash {
			tail = "/" + tail
		}
		return prefix + token + tail
	}
	return path
}

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

// edge is the first handler of every public request: it assigns an id, determines the
// client's address, and adds a span named by its route and a log line.
func (a *App) edge(next http.Handler) (http.Handler, error) {
	proxies, err := config.ParseNetworks(a.cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	seconds := a.responseMetric()
	tracer, headers := otel.Tracer("slipway.dev/edge"), propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		call := rpc.Call{RequestID: requestID(r), ClientIP: clientIP(r, proxies)}
		ctx := rpc.WithCall(headers.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), call)
		how, where := method(r), registryRoute(r.URL.Path)
		var failure error
		ctx = gateway.WithFailure(gateway.WithRoute(ctx, &where), &failure)
		ctx, span := tracer.Start(ctx, how, trace.WithSpanKind(trace.SpanKindServer))
		rec := &httprecord.Writer{ResponseWriter: w}
		w.Header().Set("X-Request-Id", call.RequestID)
		defer func() {
			if span.IsRecording() {
				span.SetName(how + " " + where)
				span.SetAttributes(attribute.Int("http.response.status_code", rec.Code))
			}
			span.End()
			if w.Header().Get("Content-Length") != "" {
				_ = http.NewResponseController(w).Flush() // flush before logging
			}
			if !strings.HasPrefix(where, "/v2") { // the registry has its own metrics
				seconds.WithLabelValues(how, where, strconv.Itoa(rec.Code)).Observe(time.Since(start).Seconds())
			}
			if failure != nil {
				a.log.ErrorContext(ctx, "Request failed", "method", r.Method, "path", r.URL.Path, "request_id", call.RequestID, "err", failure)
			}
			a.logRequest(ctx, r, rec, time.Since(start), call)
		}()
		if a.shedder.refuses(rec, r) {
			return
		}
		r, release, err := a.shedder.admit(r.WithContext(ctx), call)
		if err != nil {
			refuse(rec, r, err)
			return
		}
		defer release()
		next.ServeHTTP(rec, r)
	}), nil
}

// responseMetric returns the metric of REST responses, created on the first call.
func (a *App) responseMetric() *prometheus.HistogramVec {
	if a.seconds != nil {
		return a.seconds
	}
	a.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_http_seconds",
		Help:    "Duration of REST requests until the end of the response, by method, route and status code; the registry's are in slipway_registry_seconds.",
		Buckets: []float64{.002, .01, .05, .2, 1, 5, 30},
	}, []string{"method", "route", "code"})
	a.reg.MustRegister(a.seconds)
	return a.seconds
}

func (a *App) logRequest(ctx context.Context, r *http.Request, w *httprecord.Writer, took time.Duration, call rpc.Call) {
	a.log.InfoContext(ctx, "Request",
		"method", r.Method, "path", r.URL.Path, "status", w.Code, "bytes", w.Bytes,
		"ms", float64(took.Microseconds())/1000, "client", call.ClientIP.String(), "request_id", call.RequestID)
}

// requestID returns a proxy's request id if it is safe, and otherwise a new one.
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

// clientIP follows X-Forwarded-For backwards as long as proxies are trusted.
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

package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// Paths whose responses may take as long as a build or a large file.
const (
	logsPath         = "/v1alpha1/builds/{build_id}/logs"
	eventsPath       = "/v1alpha1/builds/{build_id}/events"
	mirrorLogsPath   = "/v1alpha1/mirrors/{build_id}/logs"
	mirrorEventsPath = "/v1alpha1/mirrors/{build_id}/events"
	sifPath          = "/v1alpha2/container/{request_id}/sif"
)

// StaysOpen reports whether the response of a path may take as long as a build or a large
// file.
func StaysOpen(path string) bool {
	for _, pattern := range []string{logsPath, eventsPath, mirrorLogsPath, mirrorEventsPath, sifPath} {
		before, rest, _ := strings.Cut(pattern, "{")
		_, after, _ := strings.Cut(rest, "}")
		if strings.HasPrefix(path, before) && strings.HasSuffix(path, after) {
			return true
		}
	}
	return false
}

type routeKey struct{}

// WithRoute makes the gateway store in *into the route that serves a request: a path with
// "*" for each variable, for example "/v1alpha2/container/*/status". The platform's routes
// begin below "/api". Without a route *into is unchanged.
func WithRoute(ctx context.Context, into *string) context.Context {
	return context.WithValue(ctx, routeKey{}, into)
}

// routed sets the timeout of each request and stores its route.
func routed(prefix string, p timeouts) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
			if found, ok := r.Context().Value(probeKey{}).(*bool); ok {
				*found = true
				return
			}
			route := routeOf(r.Context())
			if into, ok := r.Context().Value(routeKey{}).(*string); ok {
				*into = prefix + route
			}
			limit := p.answer
			if StaysOpen(route) {
				limit = p.follow
			}
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next(w, r.WithContext(ctx), path)
		}
	}
}

type probeKey struct{}

// allowed returns the methods of a path's routes, in the format of the header Allow.
func allowed(mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request) string {
	var list []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		found := false
		probe := r.Clone(context.WithValue(r.Context(), probeKey{}, &found))
		probe.Method = method
		mux.ServeHTTP(w, probe) // writes nothing: see routed and isProbe
		if found {
			list = append(list, method)
		}
	}
	return strings.Join(list, ", ")
}

func isProbe(ctx context.Context) bool { return ctx.Value(probeKey{}) != nil }

// deprecated marks the responses of a deprecated path (RFC 9745).
func deprecated(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		if routeOf(r.Context()) == "/container-token" {
			w.Header().Set("Deprecation", "true")
			w.Header().Set("Link", `</v1alpha2/container>; rel="successor-version"`)
		}
		next(w, r, path)
	}
}

func routeOf(ctx context.Context) string {
	pattern, _ := runtime.HTTPPattern(ctx)
	return wildcards(pattern.String())
}

// wildcards returns a pattern with "*" for each variable.
func wildcards(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") {
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}

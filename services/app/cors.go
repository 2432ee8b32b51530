package app

import (
	"net/http"
	"slices"
	"strings"

	"slipway.dev/gateway"
)

// A corsPolicy lets web pages of listed origins use the REST API, as the Fetch standard
// describes. Pages cannot use the user's cookies or HTTP authentication: responses do not allow
// credentials, and corsHeaders lacks the header without which the gateway ignores the session of
// this server's own page. The zero value lists no origins.
type corsPolicy struct{ origins []string }

// corsMethods and corsHeaders are the methods and headers that pages may send. corsExposed are
// the response headers that they may read, besides those that every page may read.
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsHeaders = "Accept-Version, Authorization, Content-Type, Last-Event-ID, Range"
	corsExposed = "Content-Range, Location, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id"
)

// corsAge is how long browsers cache the response to a preflight request, in seconds.
const corsAge = "600"

// handler adds the headers for pages of listed origins, and responds to their preflight
// requests. It passes other requests to next, and adds Vary to their responses.
func (c corsPolicy) handler(next http.Handler) http.Handler {
	if len(c.origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isWithoutCORS(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if !slices.Contains(c.origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", corsExposed)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.Header().Set("Access-Control-Allow-Methods", corsMethods)
			w.Header().Set("Access-Control-Allow-Headers", corsHeaders)
			w.Header().Set("Access-Control-Max-Age", corsAge)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isWithoutCORS reports whether pages of other origins must not use a path: the registry, the
// sign-in, whose pages show secrets that only the user may see, and the page's own sessions.
func isWithoutCORS(path string) bool {
	return strings.HasPrefix(path, "/v2/") || path == "/v2" || path == gateway.SessionPath || isForm(path)
}

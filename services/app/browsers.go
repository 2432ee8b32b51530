package app

import (
	"cmp"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"slipway.dev/services/internal/config"
)

// A browserGuard rejects requests that a foreign web page sends through the browser of a
// user. The page's author may be unable to reach the listener, but the browser can.
// Programs other than browsers send none of the headers that it checks, except Host.
type browserGuard struct {
	// names are the host names of a loopback listener. They are nil for other
	// listeners, which may have names that no setting contains.
	names map[string]bool
	// origins rejects changes that pages of other origins request.
	origins *http.CrossOriginProtection
	// trusted rejects the same changes, except those of pages of the trusted origins.
	trusted *http.CrossOriginProtection
}

// guardBrowsers returns the guard of the listener at addr. Its own pages are those at
// the given base URLs; empty URLs are ignored.
func guardBrowsers(addr string, bases ...string) (*browserGuard, error) {
	g := &browserGuard{origins: http.NewCrossOriginProtection(), trusted: http.NewCrossOriginProtection()}
	if config.IsLoopback(addr) {
		g.names = map[string]bool{"localhost": true}
	}
	for _, base := range bases {
		if base == "" {
			continue
		}
		u, err := url.Parse(base)
		if err != nil {
			return nil, err
		}
		if g.names != nil {
			g.names[strings.ToLower(u.Hostname())] = true
		}
		if err := g.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, err
		}
		if err := g.trust([]string{u.Scheme + "://" + u.Host}); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// trust accepts requests of pages of these origins, on the paths on which corsPolicy lets them
// read the responses.
func (g *browserGuard) trust(origins []string) error {
	for _, o := range origins {
		if err := g.trusted.AddTrustedOrigin(o); err != nil {
			return err
		}
	}
	return nil
}

// handler passes accepted requests to next.
func (g *browserGuard) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, message := g.problem(r); message != "" {
			writeRefusal(w, r, status, "DENIED", message)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// problem returns the reason why a request is rejected, or "".
func (g *browserGuard) problem(r *http.Request) (status int, message string) {
	if g.names != nil && !isAddress(r.Host) && !g.names[hostname(r.Host)] {
		return http.StatusMisdirectedRequest, "This server has no host name like the one in the request; to allow it, set public_url to the address that clients use"
	}
	origins := g.trusted
	if isWithoutCORS(r.URL.Path) {
		origins = g.origins
	}
	if err := origins.Check(r); err != nil {
		return http.StatusForbidden, "Web pages of other origins cannot change anything here; if the page is this server's own, set public_url to its address, otherwise add its origin to cors_origins"
	}
	if isFromPage(r) && !isSafe(r.Method) && r.ContentLength != 0 && !isForm(r.URL.Path) && !isJSON(r.Header.Get("Content-Type")) {
		return http.StatusUnsupportedMediaType, "Web pages must send request bodies with the Content-Type application/json"
	}
	return 0, ""
}

// isAddress reports whether a Host header is an IP address, or missing. DNS rebinding,
// which gives this machine's address to a foreign name, needs a name.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(hostname(host))
	return host == "" || err == nil
}

// hostname returns the host of a Host header in lower case, without its port and the
// brackets of an IPv6 address.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// isFromPage reports whether a browser sent a request on behalf of a page.
func isFromPage(r *http.Request) bool {
	return cmp.Or(r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")) != ""
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// isForm reports whether a path takes HTML forms: those of the sign-in do.
func isForm(path string) bool { return strings.HasPrefix(strings.TrimPrefix(path, "/api"), "/oauth/") }

// isJSON reports whether a media type is JSON. Browsers send it to another origin only
// after asking that origin for permission, which this server only gives to cors_origins.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}

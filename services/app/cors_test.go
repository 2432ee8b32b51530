package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCORS checks that pages of listed origins, and only these, may use the REST API.
func TestCORS(t *testing.T) {
	t.Parallel()
	const portal = "https://portal.example.org"
	guard, err := guardBrowsers("0.0.0.0:9090", "https://slipway.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.trust([]string{portal}); err != nil {
		t.Fatal(err)
	}
	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Reached", "yes") })
	served := corsPolicy{[]string{portal}}.handler(guard.handler(reached))
	closed := corsPolicy{}.handler(guard.handler(reached))
	for _, c := range []struct {
		name, method, path, origin string
		preflight                  bool
		status                     int
		allowed, reached           bool
	}{
		{"a query", "GET", "/v1alpha1/builds/1", portal, false, 200, true, true},
		{"a preflight", "OPTIONS", "/v1alpha2/container", portal, true, 204, true, false},
		{"a change", "POST", "/v1alpha2/container", portal, false, 200, true, true},
		{"a change at the platform", "DELETE", "/api/tokens/1", portal, false, 200, true, true},
		{"another origin's query", "GET", "/v1alpha1/builds/1", "https://evil.example", false, 200, false, true},
		{"another origin's preflight", "OPTIONS", "/v1alpha2/container", "https://evil.example", true, 200, false, true},
		{"another origin's change", "POST", "/v1alpha2/container", "https://evil.example", false, 403, false, false},
		{"a longer name", "POST", "/v1alpha2/container", portal + ".evil.example", false, 403, false, false},
		{"a sandboxed frame", "POST", "/v1alpha2/container", "null", false, 403, false, false},
		{"the registry", "GET", "/v2/wt/x/manifests/y", portal, false, 200, false, true},
		{"a push to the registry", "PUT", "/v2/wt/x/manifests/y", portal, false, 403, false, false},
		{"the sign-in", "POST", "/api/oauth/device", portal, false, 403, false, false},
		{"the page's session", "POST", "/session", portal, false, 403, false, false},
		{"the page's session, a preflight", "OPTIONS", "/session", portal, true, 200, false, true},
		{"a program", "POST", "/v1alpha2/container", "", false, 200, false, true},
	} {
		ask := func(h http.Handler) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), c.method, "https://slipway.example.org"+c.path, strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
				r.Header.Set("Sec-Fetch-Site", "cross-site")
			}
			if c.preflight {
				r.Header.Set("Access-Control-Request-Method", "POST")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		w := ask(served)
		allowed, reached := w.Header().Get("Access-Control-Allow-Origin"), w.Header().Get("Reached") != ""
		if w.Code != c.status || (allowed == c.origin && allowed != "") != c.allowed || !c.allowed && allowed != "" || reached != c.reached {
			t.Errorf("%s: %d, allowed %q, reached %t", c.name, w.Code, allowed, reached)
		}
		if w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: browsers may send credentials", c.name)
		}
		if c.preflight && c.allowed && !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: the page may not send %q", c.name, w.Header())
		}
		if strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Slipway-Page") {
			t.Errorf("%s: the page may use the session of this server's own page", c.name)
		}
		if got := ask(closed).Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: without the setting, %q is allowed", c.name, got)
		}
	}
}

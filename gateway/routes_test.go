package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway.dev/gateway"
)

// TestRoutes checks the route of each request, for metrics and spans.
func TestRoutes(t *testing.T) {
	t.Parallel()
	api, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}, Build: refusing{}, Conda: refusing{}, Inspect: refusing{}, Metrics: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	platform, err := gateway.NewPlatform(t.Context(), refusing{}, refusing{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		face               http.Handler
		method, path, want string
	}{
		{api, "POST", "/v1alpha2/container", "/v1alpha2/container"},
		{api, "GET", "/v1alpha2/container/abc", "/v1alpha2/container/*"},
		{api, "GET", "/v1alpha2/container/abc/status", "/v1alpha2/container/*/status"},
		{api, "GET", "/v1alpha2/container/abc/sif", "/v1alpha2/container/*/sif"},
		{api, "DELETE", "/container-token/abc", "/container-token/*"},
		{api, "GET", "/v1alpha1/builds", "/v1alpha1/builds"},
		{api, "GET", "/v1alpha1/builds/abc_1/logs", "/v1alpha1/builds/*/logs"},
		{api, "GET", "/v1alpha2/metrics/filesystem/pulls", "/v1alpha2/metrics/filesystem/pulls"},
		{api, "GET", "/service-info", "/service-info"},
		{api, "GET", "/v1alpha2/container/abc/other", "none"},
		{api, "BREW", "/service-info", "none"},
		{api, "GET", "/orgs/1/workspaces/2", "none"},
		{api, "GET", "/", "none"},
		{platform, "GET", "/user-info", "/api/user-info"},
		{platform, "GET", "/orgs/1/workspaces/2", "/api/orgs/*/workspaces/*"},
		{platform, "GET", "/orgs/validate", "/api/orgs/validate"},
		{platform, "GET", "/.well-known/openid-configuration", "/api/.well-known/openid-configuration"},
	} {
		got := "none"
		c.face.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gateway.WithRoute(t.Context(), &got), c.method, c.path, nil))
		if got != c.want {
			t.Errorf("%s %s is %s, want %s", c.method, c.path, got, c.want)
		}
	}
}

// TestAllow checks the methods of paths that have routes (RFC 9110, section 15.5.6).
func TestAllow(t *testing.T) {
	t.Parallel()
	api, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}, Build: refusing{}, Inspect: refusing{}, Metrics: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, want string }{
		{"PUT", "/v1alpha2/container", "POST"},
		{"POST", "/v1alpha2/container/abc", "GET, DELETE"},
		{"DELETE", "/v1alpha2/container/abc/sif", "GET, HEAD"},
		{"BREW", "/service-info", "GET"},
		{"GET", "/nowhere", ""},
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil))
		code := http.StatusMethodNotAllowed
		if c.want == "" {
			code = http.StatusNotFound
		}
		if got := w.Header().Get("Allow"); got != c.want || w.Code != code {
			t.Errorf("%s %s: %d, Allow: %q, want %q", c.method, c.path, w.Code, got, c.want)
		}
	}
}

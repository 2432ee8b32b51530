package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v2":                                 "/v2",
		"/v2/":                                "/v2",
		"/v2/wt/abc/library/x/manifests/v1":   "/v2/wt/*/manifests",
		"/v2/wt/abc/library/x/blobs/sha256:0": "/v2/wt/*/blobs",
		"/v2/wt/abc":                          "/v2/wt/*",
		"/v2/abc":                             other,
		"/service-info":                       other,
		"/../../etc/passwd":                   other,
	} {
		if got := registryRoute(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for _, m := range []string{"BREW", "get", "PROPFIND"} {
		if got := method(httptest.NewRequestWithContext(t.Context(), m, "/", nil)); got != other {
			t.Errorf("%s is %s", m, got)
		}
	}
	if got := method(httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", nil)); got != http.MethodHead {
		t.Errorf("HEAD is %s", got)
	}
}

package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v2/":                                    "/v2",
		"/v2/wt/abc/library/x/manifests/v1":       "/v2/wt/*/manifests",
		"/v2/wt/abc/library/x/blobs/sha256:0":     "/v2/wt/*/blobs",
		"/v2/wt/abc":                              "/v2/wt/*",
		"/v1alpha2/container":                     "/v1alpha2/container",
		"/v1alpha2/container/abc":                 "/v1alpha2/container/*",
		"/v1alpha2/container/abc/status":          "/v1alpha2/container/*/status",
		"/v1alpha2/container/abc/other":           other,
		"/container-token/abc":                    "/container-token/*",
		"/v1alpha1/builds":                        "/v1alpha1/builds",
		"/v1alpha1/builds/abc_1/logs":             "/v1alpha1/builds/*/logs",
		"/v1alpha2/metrics/filesystem/pulls":      "/v1alpha2/metrics/filesystem/pulls",
		"/api/user-info":                          "/api/user-info",
		"/api/orgs/1/workspaces/2":                "/api/orgs/*/workspaces/*",
		"/orgs/1/workspaces/2":                    other,
		"/api/orgs/validate":                      "/api/orgs/validate",
		"/api/.well-known/openid-configuration":   "/api/.well-known/openid-configuration",
		"/service-info":                           "/service-info",
		"/":                                       other,
		"/v1alpha2":                               other,
		"/x/y/z":                                  other,
		"/v1alpha2/container/abc/status/and/more": other,
		"/../../etc/passwd":                       other,
	} {
		if got := route(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := platformRoute("/orgs/1/workspaces/2"); got != "/api/orgs/*/workspaces/*" {
		t.Errorf("at its own address it is %s", got)
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

package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBrowserGuard lists which requests of browsers and of programs are accepted.
func TestBrowserGuard(t *testing.T) {
	t.Parallel()
	const own, form, text = "https://slipway.example.org", "application/x-www-form-urlencoded", "text/plain;charset=UTF-8"
	type headers map[string]string
	for _, c := range []struct {
		name, method, path string
		host               string // 127.0.0.1:9090 if empty
		headers            headers
		want               int
	}{
		{"curl -d", "POST", "/v1alpha2/container", "", headers{"Content-Type": form}, 200},
		{"a client without a Content-Type", "POST", "/v1alpha2/container", "", nil, 200},
		{"fetch of Node.js", "POST", "/v1alpha2/container", "", headers{"Content-Type": text, "Sec-Fetch-Mode": "cors"}, 200},
		{"the page", "POST", "/v1alpha2/container", "", headers{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:9090"}, 200},
		{"the page behind a proxy that changes Host", "DELETE", "/api/tokens/1", "", headers{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site", "Origin": own}, 200},
		{"the page in an old browser", "POST", "/v1alpha2/container", "", headers{"Content-Type": "application/json", "Origin": "http://127.0.0.1:9090"}, 200},
		{"the sign-in form", "POST", "/api/oauth/authorize", "", headers{"Content-Type": form, "Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200},
		{"the platform's own sign-in form", "POST", "/oauth/device", "", headers{"Content-Type": form, "Sec-Fetch-Site": "same-origin"}, 200},
		{"the way back from a provider", "GET", "/api/oauth/callback", "", headers{"Sec-Fetch-Site": "cross-site"}, 200},
		{"a link from elsewhere", "GET", "/view/builds/1", "", headers{"Sec-Fetch-Site": "cross-site"}, 200},

		{"a page of another site", "POST", "/v1alpha2/container", "", headers{"Content-Type": text, "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403},
		{"a page on another port", "POST", "/v1alpha2/container", "", headers{"Content-Type": text, "Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8000"}, 403},
		{"an old browser", "POST", "/v1alpha2/container", "", headers{"Content-Type": text, "Origin": "https://evil.example"}, 403},
		{"a sandboxed frame", "POST", "/v1alpha2/container", "", headers{"Content-Type": text, "Origin": "null"}, 403},
		{"a form of another site", "POST", "/api/oauth/device", "", headers{"Content-Type": form, "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403},
		{"another site deletes", "DELETE", "/v1alpha2/container/x", "", headers{"Sec-Fetch-Site": "cross-site"}, 403},
		{"another site writes to the registry", "PUT", "/v2/wt/x/manifests/y", "", headers{"Sec-Fetch-Site": "cross-site"}, 403},
		{"text of the page's own origin", "POST", "/v1alpha2/container", "", headers{"Content-Type": text, "Sec-Fetch-Site": "same-origin"}, 415},
		{"a form of the page's own origin", "POST", "/v1alpha2/container", "", headers{"Content-Type": form, "Sec-Fetch-Site": "same-origin"}, 415},
		{"a body without a type", "POST", "/v1alpha2/container", "", headers{"Sec-Fetch-Site": "same-origin"}, 415},

		{"localhost", "GET", "/service-info", "localhost:9090", nil, 200},
		{"IPv6", "GET", "/service-info", "[::1]:9090", nil, 200},
		{"public_url", "GET", "/v2/", "Slipway.example.org", nil, 200},
		{"platform_url", "GET", "/api/service-info", "platform.example.org:443", nil, 200},
		{"a forwarded port of another machine", "GET", "/service-info", "192.0.2.7:9090", nil, 200},
		{"DNS rebinding", "GET", "/service-info", "evil.example:9090", nil, 421},
		{"DNS rebinding of a pull", "GET", "/v2/wt/x/manifests/y", "evil.example", nil, 421},
		{"DNS rebinding of a change", "POST", "/v1alpha2/container", "evil.example:9090", headers{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example:9090"}, 421},
		{"a name below localhost", "GET", "/service-info", "evil.localhost.example", nil, 421},
	} {
		guard, err := guardBrowsers("127.0.0.1:9090", own, "https://platform.example.org")
		if err != nil {
			t.Fatal(err)
		}
		body := strings.NewReader(`{}`)
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1:9090"+c.path, body)
		if c.host != "" {
			r.Host = c.host
		}
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		guard.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: the status is %d, want %d: %s", c.name, w.Code, c.want, w.Body)
		}
		if form := map[bool]string{true: `{"errors":[{"code":"DENIED","message":"`, false: `{"message":"`}[strings.HasPrefix(c.path, "/v2/")]; w.Code != 200 && !strings.HasPrefix(w.Body.String(), form) {
			t.Errorf("%s: the body is %s", c.name, w.Body)
		}
	}
}

// TestAnyNameBeyondLoopback accepts every Host where other machines may reach the
// listener: names of an ingress or of a cluster are in no setting.
func TestAnyNameBeyondLoopback(t *testing.T) {
	t.Parallel()
	guard, err := guardBrowsers("0.0.0.0:9090")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://slipway.namespace.svc/service-info", nil)
	if status, message := guard.problem(r); message != "" {
		t.Errorf("the status is %d: %s", status, message)
	}
}

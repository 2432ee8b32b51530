package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestProfilesAreForThisMachine checks that profiles are not available to probes,
// Prometheus or web pages, to which the admin port may be open.
func TestProfilesAreForThisMachine(t *testing.T) {
	t.Parallel()
	h := onThisMachine(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, c := range []struct {
		peer, host string
		want       int
	}{
		{"127.0.0.1:5", "127.0.0.1:9099", http.StatusNoContent},
		{"127.0.0.1:5", "localhost:9099", http.StatusNoContent},
		{"[::1]:5", "[::1]:9099", http.StatusNoContent},
		{"10.0.0.7:5", "10.0.0.8:9099", http.StatusForbidden},
		{"10.0.0.7:5", "localhost:9099", http.StatusForbidden},
		{"127.0.0.1:5", "rebound.example.org:9099", http.StatusForbidden},
		{"@", "localhost", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://x/debug/pprof/", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		w := httptest.NewRecorder()
		if h(w, r); w.Code != c.want {
			t.Errorf("%s asks %s: %d", c.peer, c.host, w.Code)
		}
	}
}

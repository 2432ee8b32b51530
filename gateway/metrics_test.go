package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/gateway"
)

// TestNoMetricsService checks that the paths of the metrics service return 404 without that
// service.
func TestNoMetricsService(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1alpha2/metrics/builds", "/v1alpha2/metrics/pulls", "/v1alpha2/metrics/filesystem/pulls"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"message"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

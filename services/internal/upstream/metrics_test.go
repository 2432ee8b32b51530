package upstream_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestMetricsAreBounded verifies that arbitrary registries and status codes do not add
// labels.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	known, reg := testkit.NewRegistry(t, testkit.Open), prometheus.NewRegistry()
	code := 0
	known.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true })
	c := upstream.New(upstream.Options{Egress: newEgress(t, "127.0.0.1"), Plain: []string{known.Host}, Known: []string{"mine.example.org"}, Metrics: reg})
	ask := func(host string) {
		_, _ = c.Resolve(t.Context(), upstream.Repository{Host: host, Name: "a"}, "b", upstream.Access{})
	}
	for code = 460; code < 499; code++ {
		ask(known.Host)
	}
	code = http.StatusNotFound
	ask(known.Host)
	for n := range 50 {
		ask(fmt.Sprintf("127.0.0.2:%d", 1+n)) // egress refuses them
	}
	if got := testutil.CollectAndCount(reg, "slipway_upstream_answers_total"); got != 3 {
		t.Errorf("%d series, want one each for 404, other codes and other registries", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "slipway_upstream_answers_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sums[m.GetLabel()[0].GetValue()] += m.GetCounter().GetValue()
		}
	}
	if sums["404"] != 1 || sums["other"] != 39 || sums["error"] != 50 {
		t.Errorf("counted by code: %v", sums)
	}
}

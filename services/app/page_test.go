package app_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/app"
)

// TestMetricsPage compares docs/operate/metrics.md with the metrics of a process.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	want, err := app.MetricsPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/operate/metrics.md is not what `make generate` makes:\n%s", d)
	}
}

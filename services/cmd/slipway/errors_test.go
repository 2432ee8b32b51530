package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestErrorsAsJSON checks that the error of a command whose result would have been JSON is JSON.
func TestErrorsAsJSON(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"message": "Too many <builds>; try again in 7s", "code": "limit.builds", "details": {"of": "workspace"}}`))
	})
	env := map[string]string{"SLIPWAY_SERVER": url}
	for _, format := range [][]string{{"-o", "json"}, {"--json", "buildId"}, {"--jq", ".builds"}} {
		got := slipway(t.Context(), env, append([]string{"builds"}, format...)...)
		var f struct {
			Message, Code string
			Details       struct{ Of string }
			Status        int
			RetryAfter    float64
		}
		if err := json.Unmarshal([]byte(got.errs), &f); err != nil || got.code != 1 || got.out != "" || strings.Count(got.errs, "\n") != 1 || strings.Contains(got.errs, "\x1b") {
			t.Fatalf("%v: %+v, %v", format, got, err)
		}
		if !strings.HasPrefix(f.Message, "listing the builds: Too many <builds>; try again in 7s") || f.Code != "limit.builds" || f.Details.Of != "workspace" || f.Status != 429 || f.RetryAfter != 7 {
			t.Errorf("%v: %+v", format, f)
		}
	}
	if got := slipway(t.Context(), env, "builds", "-o", "yaml"); !strings.HasPrefix(got.errs, "slipway: listing the builds: Too many") {
		t.Errorf("as YAML: %+v", got)
	}
	got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": "http://127.0.0.1:1"}, "builds", "-o", "json")
	var f map[string]any
	if err := json.Unmarshal([]byte(got.errs), &f); err != nil || len(f) != 1 || !strings.Contains(got.errs, "no server answers at") {
		t.Errorf("without a server: %+v, %v", got, err)
	}
	if got := slipway(t.Context(), env, "builds", "-o", "json", "--nothing"); got.code != 2 || !strings.HasPrefix(got.errs, "slipway: ") {
		t.Errorf("an invalid command line: %+v", got)
	}
}

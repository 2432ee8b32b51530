package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit/condadata"
)

// condaChannels serves records of real channels.
func condaChannels(t testing.TB) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, channel := range []string{"conda-forge", "bioconda"} {
		for _, subdir := range []string{"linux-64", "noarch"} {
			raw := condadata.RepodataZst(t, channel, subdir)
			mux.HandleFunc("/"+channel+"/"+subdir+"/repodata.json.zst", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) })
		}
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// TestFindAndLockPackages follows the steps of a new user: search, lock, a request without a
// solution, and its suggestion.
func TestFindAndLockPackages(t *testing.T) {
	t.Parallel()
	channels := condaChannels(t)
	impossible := []string{"python=3.14", "numpy=1.26", "-c", "conda-forge"}
	eachShape(t, nil, settings{"conda_channel_alias": channels, "conda_solve_wait": "20s"}, func(t *testing.T, p *program) {
		found, errs, err := p.slipway("search", "numpy", "-c", "conda-forge")
		if err != nil || !slices.ContainsFunc(strings.Split(found, "\n"), func(l string) bool { return strings.HasPrefix(l, "numpy ") }) {
			t.Fatalf("search: %s %s %v", found, errs, err)
		}
		if out, errs, err := p.slipway("search", "conda-forge::numpy", "--max", "1000"); err != nil || !strings.Contains(out, "\n1.26.4 ") {
			t.Errorf("versions: %s %s %v", out, errs, err)
		}
		if out, _, err := p.slipway("__complete", "lock", "nump"); err != nil || !strings.HasPrefix(out, "numpy\t") {
			t.Errorf("completion: %s %v", out, err)
		}
		for format, want := range map[string]string{
			"explicit": "@EXPLICIT\n", "conda-lock": "version: 1\n", "pixi": "version: 6\n",
		} {
			out, errs, err := p.slipway("lock", "numpy=1.26", "-c", "conda-forge", "--format", format)
			if err != nil || !strings.Contains(out, want) || !strings.Contains(out, channels+"/conda-forge/linux-64/numpy-1.26.4-") {
				t.Errorf("%s: %.300s %s %v", format, out, errs, err)
			}
		}
		out, errs, err := p.slipway(append([]string{"lock"}, impossible...)...)
		if err == nil || out != "" || !strings.Contains(errs, "\n") || !strings.Contains(errs, "Try:\n  slipway lock ") {
			t.Errorf("a request without a solution: %s %s %v", out, errs, err)
		}
		out, errs, err = p.slipway(append([]string{"explain"}, impossible...)...)
		if err == nil || !strings.Contains(out, "What would work:\n") || !strings.Contains(errs, "there is no such environment") {
			t.Errorf("explanation: %s %s %v", out, errs, err)
		}
		repaired(t, p)
		if len(p.procs) == 1 { // the other shape has no builder
			refusedAtOnce(t, p)
		}
	})
}

// repaired applies the first suggestion of the server.
func repaired(t *testing.T, p *program) {
	t.Helper()
	res := p.call(http.MethodPost, "/v1alpha1/conda/lock", map[string]any{
		"packages": map[string]any{"type": "CONDA", "entries": []string{"python=3.14", "numpy=1.26"}, "channels": []string{"conda-forge"}},
	})
	var no struct {
		Suggestions []struct {
			Packages []string `json:"packages"`
		} `json:"suggestions"`
	}
	if err := json.Unmarshal(res.body, &no); err != nil || res.status != http.StatusUnprocessableEntity || len(no.Suggestions) == 0 {
		t.Fatalf("a request without a solution: %d %s", res.status, res.body)
	}
	args := append([]string{"lock", "-c", "conda-forge"}, no.Suggestions[0].Packages...)
	if out, errs, err := p.slipway(args...); err != nil || !strings.Contains(out, "@EXPLICIT\n") {
		t.Errorf("%q: %s %s %v", args, out, errs, err)
	}
}

// refusedAtOnce checks that a container request without a solution gets the same explanation as
// text, and is not queued.
func refusedAtOnce(t *testing.T, p *program) {
	t.Helper()
	_, errs, err := p.slipway("conda", "python=3.14", "numpy=1.26", "-c", "conda-forge", "--base-packages=")
	if err == nil || !strings.Contains(errs, "numpy") || !strings.Contains(errs, "\nWhat would work:\n") {
		t.Errorf("an image of packages without a solution: %s %v", errs, err)
	}
}

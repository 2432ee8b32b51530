package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestBundleLoadScheme checks that load names the option for the scheme of a registry, and does not repeat requests that
// cannot succeed.
func TestBundleLoadScheme(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	count := 0
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := serve(t, func(http.ResponseWriter, *http.Request) { count++ })
	for name, tc := range map[string]struct {
		url, option, want string
	}{
		"HTTPS on this machine": {secure.URL, "", "uses HTTPS, and plain HTTP is the default for this machine; give --plain-http=false"},
		"plain HTTP":            {plain, "--plain-http=false", "uses plain HTTP, without TLS; give --plain-http"},
		"an unknown authority":  {secure.URL, "--plain-http=false", "is not trusted; put that of its authority into /etc/docker/certs.d/127.0.0.1:"},
	} {
		_, host, _ := strings.Cut(tc.url, "//")
		args := []string{"bundle", "load", b.folder, "--to", host + "/mirror"}
		if tc.option != "" {
			args = append(args, tc.option)
		}
		if got := slipway(t.Context(), nil, args...); got.code != 1 || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
	if count != 0 {
		t.Errorf("the registry with plain HTTP had %d requests", count)
	}
}

// TestBundleWarnings checks that a configuration without an effect is noticed.
func TestBundleWarnings(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	to, config := testkit.NewRegistry(t, testkit.Open), filepath.Join(t.TempDir(), "x.config")
	if got := b.bundle(t, "", b.names[0]); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	load := func(args ...string) outcome {
		return slipway(t.Context(), nil, append([]string{"bundle", "load", b.folder, "--to", to.Host, "--nextflow-config", config}, args...)...)
	}
	if got := load(); got.code != 0 || !strings.Contains(got.errs, "Warning: the configuration has no process") {
		t.Errorf("an image by its name: %+v", got)
	}
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	if got := load(); got.code != 0 || strings.Contains(got.errs, "Warning") {
		t.Errorf("processes: %+v", got)
	}
	if got := load("--engine", "apptainer"); got.code != 0 || !strings.Contains(got.errs, "Warning: 3 of 3 processes have no Singularity image; apptainer converts") {
		t.Errorf("processes with Apptainer: %+v", got)
	}
}

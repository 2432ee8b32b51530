package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestCondaRefresh checks that a request resolves to the same packages until it is solved again
// with --refresh, whatever the channel contains, and that equal packages give an equal image.
func TestCondaRefresh(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	before := repodataOf(t, map[string]map[string]any{
		"libcurl-8.4.0-h4e8248e_0.conda": {"name": "libcurl", "version": "8.4.0", "build": "h4e8248e_0"},
	})
	after := repodataOf(t, map[string]map[string]any{
		"libcurl-8.4.0-h4e8248e_0.conda":  {"name": "libcurl", "version": "8.4.0", "build": "h4e8248e_0", "depends": []string{"libzlib"}},
		"libzlib-1.2.13-h31becfc_5.conda": {"name": "libzlib", "version": "1.2.13", "build": "h31becfc_5"},
	})
	var requests atomic.Int32
	send := func(list []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			_, _ = w.Write(list)
		}
	}
	channel.answer("repodata.json", send(before))
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	const zlib = "opt/conda/lib/libz.so.1.2.13"
	image := func(args ...string) (digest string, hasZlib bool) {
		t.Helper()
		out, errs, err := p.slipway(append([]string{"conda", "libcurl", "-c", "lab", "--base-image", base, "--base-packages", "", "--await"}, args...)...)
		if err != nil {
			t.Fatal(errs, err)
		}
		img := pull(t, strings.TrimSpace(out), "amd64")
		d, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String(), files(t, img)[zlib] != ""
	}
	one, _ := image()
	first := requests.Load()
	if same, _ := image("--refresh"); same != one || requests.Load() != first {
		t.Errorf("within a minute a refresh makes %s instead of %s, with %d requests to the channel", same, one, requests.Load()-first)
	}
	p.procs[0].kill()
	channel.answer("repodata.json", send(after))
	age(t, filepath.Join(p.procs[0].env["data_dir"], "conda"), 2*time.Minute) // still younger than conda_refresh
	p.procs[0].start()
	if same, _ := image(); same != one || requests.Load() != first {
		t.Error("without --refresh the request is solved again")
	}
	newer, has := image("--refresh")
	if !has {
		t.Error("--refresh does not ask the channel again")
	}
	if same, _ := image(); same != newer {
		t.Error("the solution of --refresh is not used afterwards")
	}
	refused := map[string]any{"containerImage": base, "refresh": true}
	if r := p.call(http.MethodPost, "/v1alpha2/container", refused); r.status != http.StatusBadRequest {
		t.Errorf("for an image it is answered %d %s", r.status, r.body)
	}
}

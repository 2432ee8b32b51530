package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputs prints a list in every format.
func TestOutputs(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, map[string]string{"GET /v1alpha1/builds": `{"builds":[` +
		`{"buildId":"beef_1","status":"COMPLETED","succeeded":true,"targetImage":"r/b:1","digest":"sha256:d"},` +
		`{"buildId":"feed_1","status":"COMPLETED","succeeded":false,"reasonCode":"solve","message":"no\nwhy"}],"totalSize":2}`})
	for format, want := range map[string]string{
		"wide": "sha256:d", "name": "beef_1\nfeed_1\n", "text": "FAILED (solve)",
		"yaml": "builds:\n- buildId: beef_1\n  status: COMPLETED\n  succeeded: true\n  targetImage: r/b:1\n", "json": `"totalSize": 2`,
	} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "builds", "-o", format)
		if got.code != 0 || !strings.Contains(got.out, want) || (format == "name" && got.out != want) || (format == "text" && strings.Contains(got.out, "sha256:d")) {
			t.Errorf("-o %s: %+v, want %q", format, got, want)
		}
	}
}

// TestEmptyLists checks that an empty list prints nothing to standard output and a reason
// to standard error.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	for args, c := range map[string]struct{ call, answer, want string }{
		"builds":           {"GET /v1alpha1/builds", `{"totalSize":0}`, "No builds yet. "},
		"tokens list":      {"GET /api/tokens", `{"tokens":[]}`, "No tokens yet. "},
		"credentials list": {"GET /api/credentials", `{"credentials":[]}`, "No credentials yet. "},
	} {
		url, calls := answering(t, map[string]string{c.call: c.answer})
		env := map[string]string{"SLIPWAY_SERVER": url, "SLIPWAY_TOKEN": "x"}
		if got := slipway(t.Context(), env, strings.Fields(args)...); got.code != 0 || got.out != "" || !strings.HasPrefix(got.errs, c.want) {
			t.Errorf("slipway %s: %+v after %q, want %q", args, got, *calls, c.want)
		}
		if got := slipway(t.Context(), env, append(strings.Fields(args), "-o", "json")...); got.code != 0 || !strings.Contains(got.out, ": []") || got.errs != "" {
			t.Errorf("slipway %s -o json: %+v", args, got)
		}
	}
}

// TestAwaitPrintsResult checks that the last line has the digest and the size.
func TestAwaitPrintsResult(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, map[string]string{
		"POST /v1alpha2/container":              builtAnswer,
		"GET /v1alpha1/builds/beef_1/events":    "event: log\ndata: one\n\nevent: phase\ndata: push\n\n" + success,
		"GET /v1alpha2/container/abc123/status": done,
		"GET /v1alpha1/builds/beef_1":           `{"buildId":"beef_1","succeeded":true,"digest":"sha256:d"}`,
		"POST /v1alpha1/inspect":                `{"container":{"manifest":{"layers":[{"size":1500},{"size":500}]}}}`,
	})
	dockerfile := filepath.Join(t.TempDir(), "Dockerfile")
	must(t, os.WriteFile(dockerfile, []byte("FROM x\n"), 0o600))
	got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "build", "-f", dockerfile, "--await", "--progress", "plain")
	if got.code != 0 || got.out != builtName || !strings.HasSuffix(got.errs, "Made sha256:d, 2.0 kB in 2 layers\n") || strings.Contains(got.errs, "\x1b") {
		t.Errorf("%+v", got)
	}
	if got := slipway(t.Context(), nil, "build", "-f", dockerfile, "--progress", "fancy"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/testkit"
)

// TestProbe checks, for several kinds of runc, whether they can run steps, and the reasons.
func TestProbe(t *testing.T) {
	testkit.Builders(t)
	path, version, err := daemon.Probe(t.Context(), "")
	if err != nil || path == "" || version == "" {
		t.Fatalf("%s, %s, %v", path, version, err)
	}
	for name, c := range map[string]struct{ script, want string }{
		"another program": {"echo hello", "is not runc"},
		"runc without control groups": {
			`case "$*" in --version) echo runc version 1.3.9 ;; *run*) echo 'no cgroup mount found in mountinfo' >&2; exit 1 ;; esac`,
			"cannot start a container here: no cgroup mount found in mountinfo; mount control groups",
		},
		"runc without namespaces": {
			`case "$*" in --version) echo runc version 1.3.9 ;; *run*) echo 'unshare: operation not permitted' >&2; exit 1 ;; esac`,
			"lets root make namespaces",
		},
	} {
		runc := filepath.Join(t.TempDir(), "runc")
		if err := os.WriteFile(runc, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := daemon.Probe(t.Context(), runc); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

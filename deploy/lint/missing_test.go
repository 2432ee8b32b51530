package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissing checks that the message about missing build tools of bin/runc lists them and the
// command that installs them.
func TestMissing(t *testing.T) {
	t.Parallel()
	for manager, want := range map[string]string{
		"apt-get": "apt-get install --yes gcc", "dnf": "dnf install", "apk": "apk add", "none": "the package manager of this machine",
	} {
		bin := t.TempDir()
		for _, program := range []string{"sh", "id", "cat"} {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(bin, manager), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "../../services/tools/missing.sh")
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "lacks gcc pkg-config libseccomp") || !strings.Contains(string(out), want) {
			t.Errorf("with %s: %v\n%s", manager, err, out)
		}
	}
}

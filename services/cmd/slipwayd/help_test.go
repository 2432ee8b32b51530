package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelpIsShort checks that rarely used settings are not in the help.
func TestHelpIsShort(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"user", "create", "--help"}} {
		var out strings.Builder
		cmd := command()
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n > 45 || !strings.Contains(out.String(), "--data-dir") || !strings.Contains(out.String(), "config --explain") || strings.Contains(out.String(), "--limit-platform") {
			t.Errorf("%v has %d lines:\n%s", args, n, out.String())
		}
	}
	if out, err := slipwayd(t, t.TempDir(), "version"); err != nil || !strings.HasPrefix(out, "slipwayd ") {
		t.Errorf("version: %q, %v", out, err)
	}
}

// TestConfigSaysWhatIsWrong checks that only errors are printed.
func TestConfigSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("htp_addr: 127.0.0.1:1\npull_wait: soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := slipwayd(t, dir, "config", "--config", bad)
	if err == nil || out != "" {
		t.Fatalf("%q, %v", out, err)
	}
	for _, want := range []string{"did you mean http_addr?", "pull_wait (from " + bad + "): must be a duration such as 90s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 2 {
		t.Errorf("%d lines for two mistakes:\n%v", n, err)
	}
	out, err = slipwayd(t, dir, "config", "--explain")
	if err != nil || !strings.Contains(out, "# Builds") || !strings.Contains(out, "pull_wait: 15m0s") {
		t.Errorf("without a mistake: %v\n%s", err, out)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestContexts names servers, and checks which one is used.
func TestContexts(t *testing.T) {
	t.Parallel()
	env := map[string]string{"XDG_CONFIG_HOME": t.TempDir()}
	path := filepath.Join(env["XDG_CONFIG_HOME"], "slipway", "logins.json")
	one, two := me(t, "secret-1"), me(t, "secret-2")
	file := filepath.Join(t.TempDir(), "token")
	do := func(code int, want string, args ...string) {
		t.Helper()
		if got := slipway(t.Context(), env, args...); got.code != code || !strings.Contains(got.out+got.errs, want) {
			t.Errorf("slipway %q: %+v, want %q", args, got, want)
		}
	}
	do(0, "No contexts yet.", "config", "list")
	do(0, "Added one, "+one+".", "config", "add", "one", one+"/")
	do(0, "Added two, ", "config", "add", "two", two)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v", info, err)
	}
	must(t, os.WriteFile(file, []byte("secret-1"), 0o600))
	do(0, "Signed in to "+one+" as ada.", "login", "--context", "one", "--token-file", file)
	must(t, os.WriteFile(file, []byte("secret-2"), 0o600))
	do(0, "Signed in to "+two+" as ada.", "login", "--context", "two", "--token-file", file)

	// Each server gets its own token only.
	do(0, two, "whoami")
	do(0, one, "whoami", "--context", "one")
	do(0, "Commands now use one, "+one+".", "config", "use", "one")
	do(0, one, "whoami")
	do(0, one, "config", "list", "--jq", ".contexts[] | select(.current).server")
	env["SLIPWAY_CONTEXT"] = "two"
	do(0, two, "whoami")
	do(0, "SLIPWAY_CONTEXT is set, and takes precedence", "config", "use", "one")
	env["SLIPWAY_SERVER"] = one
	do(0, one, "whoami")
	do(0, "from SLIPWAY_SERVER", "config", "show")
	do(0, two, "whoami", "--context", "two")
	do(0, `"from --context"`, "config", "show", "--context", "two", "--jq", `"\"from \(.source)\""`)
	do(0, "two\n", "config", "show", "--context", "two", "--jq", ".contexts[]")
	delete(env, "SLIPWAY_SERVER")
	delete(env, "SLIPWAY_CONTEXT")

	do(0, "one\t"+one, "__complete", "config", "use", "")
	do(0, "two\t"+two, "__complete", "builds", "--context", "t")
	do(2, "--server and --context both name a server", "whoami", "--context", "one", "--server", two)
	do(2, `there is no context "three" of --context`, "whoami", "--context", "three")
	do(1, "config remove one", "config", "add", "one", two)
	do(1, `there is no context "three"`, "config", "use", "three")
	do(1, `there is no context "three"`, "config", "remove", "three")
	do(2, "must be a URL", "config", "add", "three", "example.org")
	do(2, "must have no password", "config", "add", "three", "https://ada:secret@example.org")
	do(2, "must be up to 63 letters", "config", "add", "../three", two)
	do(2, "must be up to 63 letters", "config", "add", strings.Repeat("x", 64), two)
	do(0, "commands still use "+one, "config", "remove", "one")
	do(0, one, "whoami")
	do(2, `there is no context "one"`, "whoami", "--context", "one")
	for n := range 99 {
		do(0, "Added", "config", "add", "more"+strconv.Itoa(n), two)
	}
	do(1, "there are 100 contexts, which is the limit", "config", "add", "last", two)
	if raw, err := os.ReadFile(path); err != nil || strings.Count(string(raw), "secret-") != 2 {
		t.Errorf("stored is %s, %v", raw, err)
	}
}

// TestGroups checks that all commands have a group in the help.
func TestGroups(t *testing.T) {
	t.Parallel()
	if got := slipway(t.Context(), nil, "--help"); got.code != 0 || strings.Contains(got.out, "Additional Commands:") || strings.Contains(got.out, "\x1b") {
		t.Errorf("%+v", got)
	}
}

// TestManual writes the manual pages of all commands.
func TestManual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := slipway(t.Context(), nil, "man", dir); got.code != 0 || got.out != "" {
		t.Fatalf("%+v", got)
	}
	for _, c := range fresh().Commands() {
		raw, err := os.ReadFile(filepath.Join(dir, "slipway-"+c.Name()+".1"))
		if err != nil || !strings.HasPrefix(string(raw), `.TH "SLIPWAY\-`) {
			t.Errorf("slipway %s: %.100s, %v", c.Name(), raw, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "slipway.1")); err != nil || !strings.Contains(string(raw), ".SS \"Packages\"\n") {
		t.Errorf("slipway: %v", err)
	}
}

package layering

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/conda"
)

// TestExports holds what is read of activation scripts against what a shell makes
// of them, and that what only a shell can know is left to it.
func TestExports(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string // nil: it has to run
	}{
		{"export A=b", []string{"A=b"}},
		{"#!/bin/sh\n\n# why\nexport A=b\n  export B=/x/y:z-1.2,3%@+_\n", []string{"A=b", "B=/x/y:z-1.2,3%@+_"}},
		{"export A='b c $D'\nexport B=\"b ; c\"\nexport C=", []string{"A=b c $D", "B=b ; c", "C="}},
		{"export P=$CONDA_PREFIX/lib\nexport Q=\"${CONDA_PREFIX}/share:${CONDA_PREFIX}\"", []string{"P=/opt/conda/lib", "Q=/opt/conda/share:/opt/conda"}},
		{"export A='${CONDA_PREFIX}'", []string{"A=${CONDA_PREFIX}"}},
		{"export P=$CONDA_PREFIX", []string{"P=/opt/conda"}},
		{"", nil},
		{"export A=$HOME", nil},
		{"export A=$CONDA_PREFIXES", nil},
		{"export A=`date`", nil},
		{"export A=\"$(date)\"", nil},
		{"export A=b; rm -rf /", nil},
		{"export A=b C=d", nil},
		{"export A=~/x", nil},
		{"export A=*", nil},
		{"export A=\"a\\nb\"", nil},
		{"export A='a'b'c'", nil},
		{"export A='it", nil},
		{"export A=b # why", nil},
		{"export PATH=/x", nil},
		{"export 1A=b", nil},
		{"export A", nil},
		{"A=b", nil},
		{"if true; then\nexport A=b\nfi", nil},
	} {
		got, ok := exports(c.text)
		if c.text == "" {
			if !ok || got != nil {
				t.Errorf("an empty script sets %q, %v", got, ok)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || ok != (c.want != nil) {
			t.Errorf("%q, %v (-want +got):\n%s", c.text, ok, diff)
		}
		if ok {
			asShell(t, c.text, got)
		}
	}
}

// asShell holds variables against those that a real shell has after a script.
func asShell(t *testing.T, script string, want []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "activate.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range want {
		name, value, _ := strings.Cut(v, "=")
		cmd := exec.Command("/bin/sh", "-c", `. "$0"; eval "printf %s \"\$$1\""`, file, name)
		cmd.Env = []string{"CONDA_PREFIX=" + conda.Prefix, "D=no"}
		out, err := cmd.Output()
		if err != nil || string(out) != value {
			t.Errorf("%q: a shell has %s=%q, not %q: %v", script, name, out, value, err)
		}
	}
}

// TestVariables holds the order in which packages set variables, and what is told
// of the rest.
func TestVariables(t *testing.T) {
	t.Parallel()
	script := func(name, text string) artifact.Script { return artifact.Script{Path: "etc/conda/" + name, Text: text} }
	env, others := variables([]Package{
		{Activation: []artifact.Script{script("activate.d/b.sh", "export A=script"), script("env_vars.d/z.json", `{"B":"z","A":"document"}`)}},
		{Activation: []artifact.Script{script("activate.d/a.sh", "export C=c"), script("activate.d/c.sh", "which perl"), script("env_vars.d/a.json", `{"PATH":"/x"}`), script("env_vars.d/b.json", `[]`)}},
	})
	if diff := cmp.Diff([]string{"A=document", "B=z", "C=c", "A=script"}, env); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"etc/conda/env_vars.d/a.json", "etc/conda/env_vars.d/b.json", "etc/conda/activate.d/c.sh"}, others); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PATH=/a", "A=script", "B=z", "C=c"}, merged([]string{"PATH=/a", "A=0"}, env)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

// TestHistory holds what conda reads of what was asked for.
func TestHistory(t *testing.T) {
	t.Parallel()
	e := Environment{Specs: []string{"samtools=1.20", `it's a "\`}, Records: []conda.Record{
		{Name: "zlib", Version: "1.3", Build: "h_0", Channel: "conda-forge", Subdir: "linux-64", Timestamp: 1_600_000_000_000},
		{Name: "samtools", Version: "1.20", Build: "h_1", Channel: "https://example.org/c/noarch", Subdir: "noarch", Timestamp: 1_700_000_000_999},
	}}
	want := "==> 2023-11-14 22:13:20 <==\n# cmd: slipway\n+conda-forge/linux-64::zlib-1.3-h_0\n+https://example.org/c/noarch::samtools-1.20-h_1\n" +
		"# update specs: ['samtools=1.20', 'it\\'s a \"\\\\']\n"
	if diff := cmp.Diff(want, e.history()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := e.created(); !at.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("created %s", at)
	}
}

// FuzzExports reads scripts and documents that set variables.
func FuzzExports(f *testing.F) {
	f.Add("export A=\"${CONDA_PREFIX}/x\"\n", false)
	f.Add(`{"A":"b"}`, true)
	f.Fuzz(func(t *testing.T, text string, isDocument bool) {
		read := exports
		if isDocument {
			read = document
		}
		set, ok := read(text)
		for _, v := range set {
			if name, value, is := strings.Cut(v, "="); !ok || !is || !settable(name, value) {
				t.Errorf("%q sets %q", text, v)
			}
		}
	})
}

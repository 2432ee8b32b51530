package layering

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

// TestVariables checks the order in which packages set variables, and the reported scripts.
func TestVariables(t *testing.T) {
	t.Parallel()
	script := func(name, text string) artifact.Script { return artifact.Script{Path: "etc/conda/" + name, Text: text} }
	e := Environment{
		Platform: ocispec.Platform{OS: "linux", Architecture: "arm64"}, Variables: map[string]string{"B": "own", "A": "own"},
		Packages: []Package{
			{
				Activation: []artifact.Script{script("activate.d/b.sh", "export A=${A}script"), script("env_vars.d/z.json", `{"B":"z","A":"document","D":"d"}`)},
				Paths:      []string{"share/x/data", "share/x.y", "bin/tool", "share/x/more/a"},
			},
			{Activation: []artifact.Script{
				script("activate.d/a.sh", "export C=c-$(uname -m)\nunset GONE"), script("activate.d/c.sh", "export LOST=1; which perl"),
				script("activate.d/d.sh", "[ -d $CONDA_PREFIX/share/x ] && [ ! -e $CONDA_PREFIX/share/z ] && export X=$(echo $CONDA_PREFIX/share/x*) PATH=/x:$PATH"),
				script("env_vars.d/a.json", `{"PATH":"/x"}`), script("env_vars.d/b.json", `[]`),
			}},
		},
	}
	env, refused, err := e.activated(t.Context(), []string{"PATH=/a", "GONE=1", "A=0"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATH=/x:/opt/conda/bin:/a", "A=ownscript", "B=own", "C=c-aarch64", "CONDA_PREFIX=/opt/conda", "D=d", "MAMBA_ROOT_PREFIX=/opt/conda", "X=/opt/conda/share/x /opt/conda/share/x.y",
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	var paths []string
	for _, r := range refused {
		paths = append(paths, r.path)
	}
	if diff := cmp.Diff([]string{"etc/conda/env_vars.d/a.json", "etc/conda/env_vars.d/b.json", "etc/conda/activate.d/c.sh"}, paths); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}

// TestOwnLayer checks the files of the environment's own layer: conda reads the state, and
// login shells find the programs.
func TestOwnLayer(t *testing.T) {
	t.Parallel()
	var raw bytes.Buffer
	e := Environment{Variables: map[string]string{"B": "2 \"x\"", "A": "1"}}
	if _, err := e.own(&raw, []byte("[]"), nil, []string{"PATH=/opt/conda/bin:" + defaultPath}); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&raw)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = string(text)
		}
	}
	if got, want := files["opt/conda/conda-meta/state"], `{"env_vars":{"A":"1","B":"2 \"x\""},"version":1}`+"\n"; got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
	if len(files) != 4 || files["opt/conda/conda-meta/history"] == "" || files[spec.LockFile] != "[]" {
		t.Errorf("the layer has %q", files)
	}
	// As a login shell does after /etc/profile has set PATH again.
	for _, c := range []struct{ base, environment, login, want string }{
		{"", "", "/usr/bin:/bin", "/opt/conda/bin:/usr/bin:/bin"},
		{"", "", "/x:/opt/conda/bin", "/x:/opt/conda/bin"},
		{"/a:/b", "/jvm/bin:/opt/conda/bin:/a:/b", "/usr/bin", "/jvm/bin:/opt/conda/bin:/usr/bin"},
		{"/a:/b", "/jvm/bin:/opt/conda/bin:/a:/b:/last", "/opt/conda/bin:/a", "/jvm/bin:/opt/conda/bin:/a:/last"},
		{"/a", "/it's $HOME `x`*:/opt/conda/bin:/a:/end's", "/usr/bin", "/it's $HOME `x`*:/opt/conda/bin:/usr/bin:/end's"},
	} {
		script := files[profilePath]
		if c.environment != "" {
			script = profile(c.base, c.environment)
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-eu", "-c", script+script+`echo "$PATH"`) // again changes nothing
		cmd.Env = []string{"PATH=" + c.login}
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("%+v: a shell gets %q, %v", c, out, err)
		}
	}
}

// TestHistory checks the requested packages that conda reads.
func TestHistory(t *testing.T) {
	t.Parallel()
	e := Environment{Specs: []string{"samtools=1.20", `it's a "\`}, Records: []spec.Record{
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

// TestActivatedCancelled checks that activation ends with the context of the build.
func TestActivatedCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := Environment{Packages: []Package{{Activation: []artifact.Script{{Path: "etc/conda/activate.d/a.sh", Text: "export A=1"}}}}}
	if env, _, err := e.activated(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", env, err)
	}
}

// FuzzDocument parses files of env_vars.d.
func FuzzDocument(f *testing.F) {
	f.Add(`{"A":"b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		set, ok := document(text)
		for name, value := range set {
			if !ok || !settable(name, value) {
				t.Errorf("%q sets %q to %q", text, name, value)
			}
		}
	})
}

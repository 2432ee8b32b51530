package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// comparison is the output of `slipwayd conda compare --output json`.
type comparison struct {
	Direct, Classic, Lock string
	Names, Records        int
	Differences           []struct{ Path, What, Direct, Classic string }
	Known                 []struct {
		Why   string
		Count int
	}
}

// compare runs `slipwayd conda compare` with an image that contains an installer.
func (p *program) compare(t *testing.T, base, mamba string, entries ...string) (comparison, error) {
	t.Helper()
	body := environment(base, entries...)
	body["packages"].(map[string]any)["condaOpts"].(map[string]any)["mambaImage"] = mamba
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	cmd := exec.Command(filepath.Join(binaries, "slipwayd"), "conda", "compare", "-", "--server", p.url, "--output", "json")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(raw), &out, &said
	failed := cmd.Run()
	var got comparison
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("slipwayd conda compare: %v\n%s", failed, tail(said.String(), 3000))
	}
	return got, failed
}

// TestCondaCompare compares images of packages with an installation of the same lock in a real
// build, once with equal and once with different results.
func TestCondaCompare(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	p := oneProcess(t, common(t, []string{up.Host}, settings{"conda_channel_alias": channel.URL, "conda_solve_wait": "20s"}))
	script, err := os.ReadFile("testdata/conda/installer")
	if err != nil {
		t.Fatal(err)
	}
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	programs := map[string]string{"bin/micromamba": string(script), "tmp/.keep": ""}
	right := up.Push(t, "tool/installer:1", with(t, busybox(t, true), programs))
	programs["break"] = ""
	wrong := up.Push(t, "tool/installer:2", with(t, busybox(t, true), programs))
	got, err := p.compare(t, base, right, "libffi", "libedit")
	if err != nil || len(got.Differences) != 0 || got.Records != 2 || got.Names < 30 || !strings.Contains(got.Lock, "@EXPLICIT") || got.Direct == got.Classic {
		t.Errorf("alike: %v, %+v", err, got)
	}
	if len(got.Known) == 0 {
		t.Error("no expected differences are listed, not even paths of records")
	}
	got, err = p.compare(t, base, wrong, "libffi", "libedit")
	var what []string
	for _, d := range got.Differences {
		what = append(what, d.Path+" "+d.What+" "+d.Direct+"|"+d.Classic)
	}
	if want := []string{"opt/conda/include/ffi.h mode 0664|0700", "opt/conda/lib/surplus missing |file 0644"}; err == nil || !slices.Equal(what, want) {
		t.Errorf("not alike: %v, %q, want %q", err, what, want)
	}
}

package conda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeMicromamba records its arguments and returns the responses that the test stored in
// files.
const fakeMicromamba = `#!/bin/sh
echo "$*" >>"$HOME/calls"
case $1 in
install)
	n=$(grep -c '^install' "$HOME/calls")
	[ -f "$HOME/says-$n" ] && cat "$HOME/says-$n"
	[ -n "${CONDA_OVERRIDE_CUDA:-}" ] && echo "cuda $CONDA_OVERRIDE_CUDA" >>"$HOME/calls"
	[ ! -f "$HOME/says-$n" ]
	;;
env) echo "@EXPLICIT" ;;
esac
`

// TestInstaller runs the real script with a fake micromamba.
func TestInstaller(t *testing.T) {
	t.Parallel()
	const unsolved = "slipway: conda environment could not be solved"
	const end = "env export -p PREFIX --explicit\nclean -a -y\n"
	for _, tc := range []struct {
		name  string
		files map[string]string
		says  map[string]string // error messages by attempt
		calls string
		out   []string // expected output, in order
		fails bool
	}{
		{name: "environment", files: map[string]string{"conda.yml": "x"}, calls: "install -y -p PREFIX -f conda.yml\n" + end,
			out: []string{">> CONDA_LOCK_START\n@EXPLICIT\n<< CONDA_LOCK_END"}},
		{name: "base packages", files: map[string]string{"conda.yml": "x", "base.yml": "y"},
			calls: "install -y -p PREFIX -f conda.yml\ninstall -y -p PREFIX -f base.yml\n" + end},
		{name: "lock", files: map[string]string{"lock-url": "https://h/$(touch x) '\"a"}, calls: "install -y -p PREFIX -f https://h/$(touch x) '\"a\n" + end},
		{name: "wants a GPU", files: map[string]string{"conda.yml": "x"}, says: map[string]string{"1": "nothing provides __cuda needed by x\n"},
			calls: "install -y -p PREFIX -f conda.yml\ninstall -y -p PREFIX -f conda.yml\ncuda 99\n" + end,
			out:   []string{"nothing provides __cuda", "trying again", ">> CONDA_LOCK_START"}},
		{name: "wants a GPU and more", files: map[string]string{"conda.yml": "x"},
			says:  map[string]string{"1": "nothing provides __cuda needed by x\n", "2": "nothing provides __glibc\n"},
			calls: "install -y -p PREFIX -f conda.yml\ninstall -y -p PREFIX -f conda.yml\ncuda 99\n", out: []string{unsolved}, fails: true},
		{name: "cannot be solved", files: map[string]string{"conda.yml": "x"},
			says:  map[string]string{"1": "error    libmamba Could not solve for environment specs\n    └─ nope =* * does not exist (perhaps a typo or a missing channel).\n"},
			calls: "install -y -p PREFIX -f conda.yml\n", out: []string{"nope", unsolved}, fails: true},
		{name: "base packages cannot be solved", files: map[string]string{"conda.yml": "x", "base.yml": "y"}, says: map[string]string{"2": "nothing provides y\n"},
			calls: "install -y -p PREFIX -f conda.yml\ninstall -y -p PREFIX -f base.yml\n", out: []string{unsolved}, fails: true},
		{name: "no network", files: map[string]string{"conda.yml": "x"}, says: map[string]string{"1": "Could not resolve host: conda.anaconda.org\n"},
			calls: "install -y -p PREFIX -f conda.yml\n", fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			put := func(name, text string) {
				if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			put("micromamba", fakeMicromamba)
			put("install.sh", strings.ReplaceAll(installer, "/opt/conda", home+"/conda"))
			for name, text := range tc.files {
				put(name, text)
			}
			for n, text := range tc.says {
				put("says-"+n, text)
			}
			cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(home, "install.sh"))
			cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + home + ":" + os.Getenv("PATH")}
			raw, err := cmd.CombinedOutput()
			if (err != nil) != tc.fails {
				t.Errorf("the script ended with %v:\n%s", err, raw)
			}
			calls, _ := os.ReadFile(filepath.Join(home, "calls"))
			if diff := cmp.Diff(tc.calls, strings.ReplaceAll(string(calls), home+"/conda", "PREFIX")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			rest := string(raw)
			for _, want := range tc.out {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("%q is not in its place in:\n%s", want, raw)
				}
				rest = after
			}
			if strings.Contains(string(raw), unsolved) && (len(tc.out) == 0 || tc.out[len(tc.out)-1] != unsolved) {
				t.Errorf("the output blames the solver:\n%s", raw)
			}
		})
	}
}

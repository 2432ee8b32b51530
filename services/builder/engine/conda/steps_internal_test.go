package conda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

// TestInstaller runs the real script in a folder in place of the environment.
func TestInstaller(t *testing.T) {
	t.Parallel()
	const first = "bin/.a-post-link.sh\ta\t1.0\t3\n"
	const second = "bin/.b-post-link.sh\tb\t2\t0\n"
	for _, tc := range []struct {
		name   string
		links  string
		pip    string
		files  map[string]string // of the environment
		said   string
		failed bool
	}{
		{"nothing", "", "", nil, "", false},
		{"in order", first + second, "", map[string]string{
			"bin/.a-post-link.sh":       `echo "$PKG_NAME $PKG_VERSION $PKG_BUILDNUM $PREFIX $(pwd)"; cat; echo "of a" >>"$PREFIX/.messages.txt"`,
			"bin/.b-post-link.sh":       `echo "$PKG_NAME $PKG_VERSION $PKG_BUILDNUM $ENTERED"; [ ! -e "$PREFIX/.messages.txt" ]`,
			"etc/conda/activate.d/b.sh": "export ENTERED=yes\n",
		}, "slipway: running bin/.a-post-link.sh of a 1.0\na 1.0 3 PREFIX PREFIX\nof a\nslipway: running bin/.b-post-link.sh of b 2\nb 2 0 yes\n", false},
		{"a script that fails", first + second, "", map[string]string{
			"bin/.a-post-link.sh": `echo "no network" >"$PREFIX/.messages.txt"; exit 7`, "bin/.b-post-link.sh": "echo not reached",
		}, "slipway: running bin/.a-post-link.sh of a 1.0\nno network\nslipway: bin/.a-post-link.sh of a 1.0 failed with exit code 7\n", true},
		{"a missing script", first, "", nil, "", true},
		{"pip, after scripts", first, "six\n", map[string]string{
			"bin/.a-post-link.sh": "echo first", "bin/python": "#!/bin/sh\necho \"python $*\"; cat requirements.txt\n",
		}, "slipway: running bin/.a-post-link.sh of a 1.0\nfirst\npython -m pip install --no-cache-dir -r requirements.txt\nsix\n", false},
		{"a pip that fails", "", "six\n", map[string]string{"bin/python": "#!/bin/sh\nexit 1\n"}, "", true},
		{"compiled, after pip", "", "six\n", map[string]string{
			"compile": "", "lib/python3.12/site-packages/a.py": "", "bin/python": "#!/bin/sh\necho \"python $*\"\n",
		}, "python -m pip install --no-cache-dir -r requirements.txt\npython -m compileall -qq --invalidation-mode unchecked-hash PREFIX/lib/python3.12/site-packages\n", false},
		{"sources that stay", "", "", map[string]string{"compile": "", "bin/python": "#!/bin/sh\nexit 1\n"},
			"slipway: some modules were not compiled: they are not in this Python's language\n", false},
		{"R packages from source, after pip", "", "six\n", map[string]string{
			"cran": "https://cran.example\nA\t1\n", "bin/python": "#!/bin/sh\necho pip\n", "bin/Rscript": "#!/bin/sh\necho \"Rscript $* $CC $CONDA_PREFIX\"; cat cran\n",
			"etc/conda/activate.d/gcc.sh": "export CC=gcc\n",
		}, "pip\nRscript --vanilla cran.R gcc PREFIX\nhttps://cran.example\nA\t1\n", false},
		{"R packages that cannot be built", "", "", map[string]string{"cran": "https://cran.example\n", "bin/Rscript": "#!/bin/sh\nexit 1\n"}, "", true},
		{"no Python to compile", "", "", map[string]string{"compile": ""},
			"slipway: nothing can be compiled: there is no Python among the packages; add it, or leave packages.condaOpts.compile out\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			prefix := filepath.Join(dir, "conda")
			put := func(path, text string) {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			put(filepath.Join(dir, "steps/install.sh"), strings.ReplaceAll(installer, "/opt/conda", prefix))
			put(filepath.Join(prefix, "conda-meta/history"), "")
			for name, text := range map[string]string{"links": tc.links, "requirements.txt": tc.pip} {
				if text != "" {
					put(filepath.Join(dir, "steps", name), text)
				}
			}
			for name, text := range tc.files {
				if name == "compile" || name == "cran" {
					name = filepath.Join("..", "steps", name)
				}
				put(filepath.Join(prefix, name), text)
			}
			out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "steps/install.sh")).CombinedOutput()
			if (err != nil) != tc.failed {
				t.Errorf("it ends as %v: %s", err, out)
			}
			if tc.said == "" && tc.failed {
				return // the message is the shell's
			}
			if diff := cmp.Diff(tc.said, strings.ReplaceAll(string(out), prefix, "PREFIX")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestScriptsAreNotParsed checks that the installer's list contains only the names of
// packages.
func TestScriptsAreNotParsed(t *testing.T) {
	t.Parallel()
	for _, rec := range []spec.Record{{Name: "a\tb", Version: "1"}, {Name: "a", Version: "1\nbin/x"}, {Name: "a", Version: "1;id"}, {Name: "", Version: "1"}} {
		if line, err := linkLine(rec, artifact.Script{Path: "bin/.a-post-link.sh"}); err == nil {
			t.Errorf("%q", line)
		}
	}
}

package activation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/packages/activation"
)

// small returns an environment with a few files.
func small() activation.Environment {
	return activation.Environment{
		Prefix: "/opt/conda", Machine: "x86_64",
		Kind: func(path string) activation.Kind {
			switch path {
			case "lib", "bin":
				return activation.Folder
			case "lib/a.so", "bin/tool", "share/bin/data":
				return activation.File
			}
			return activation.None
		},
		Files: func(folder string) []string {
			if folder == "lib" {
				return []string{"a.so"}
			}
			return nil
		},
	}
}

func shell() *activation.Shell {
	return activation.New(small(), map[string]string{"PATH": "/opt/conda/bin:/bin", "CONDA_PREFIX": "/opt/conda"})
}

// TestRefused checks that scripts are rejected if their result depends on a program, on the
// container or on files of the base image, and that they set no variable.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"A=$HOME", "A=`date`", "A=$(date)", "A=~/x", "A=x:~/y", "rm -rf /", "A=(1 2)", "[ -f /etc/passwd ]", "cd /opt/conda", "exit 1", "A=$$", "A=$RANDOM", "export A", "trap x EXIT",
		"if true; then", "A=$'\\n'", "A=${B@Q}", "A=$((1+1))", "echo x > /tmp/x", "cat /etc/passwd", ". /opt/conda/x.sh", "sleep 1 &", "A=b true", "[ -d /opt/conda/lib/a.so ]",
		"[ -L /opt/conda/lib ]", "eval 'A=$(date)'", "command -v perl", "f() { f; }; f", "while true; do :; done", "for i in {1..9}; do :; done", "X=${X:?none}", "set -e", "PWD=/x", "exec tool", "A=$(</etc/passwd)",
		"readonly A=1", "set -o pipefail", "set -o", "set +o", "[ -s /opt/conda/lib/a.so ]", "[ -x /opt/conda/share/bin/data ]", "declare -A A", "export -f f", "[ a -lt b ]", "ls /opt/conda/*/x", "A=${!B}",
	} {
		s := shell()
		if err := s.Source(t.Context(), "etc/conda/activate.d/x.sh", "export TRACE=1\n"+text+"\n"); err == nil {
			t.Errorf("%q is evaluated: %v", text, s.Exported())
		}
		if s.Exported()["TRACE"] != "" {
			t.Errorf("%q is rejected, but changed variables", text)
		}
	}
}

// TestTotal checks that hostile scripts end quickly.
func TestTotal(t *testing.T) {
	t.Parallel()
	double := "A=aaaaaaaaaaaaaaaa\n" + strings.Repeat("A=$A$A\n", 40)
	for name, text := range map[string]string{
		"doubling":     double,
		"nested loops": strings.Repeat("for i in 1 2 3 4 5 6 7 8 9; do ", 30) + ":" + strings.Repeat("; done", 30),
		"deep":         strings.Repeat("( ", 20000) + ":" + strings.Repeat(" )", 20000),
		"deep words":   strings.Repeat("$(", 20000),
		"deep tests":   "[[ " + strings.Repeat("! ", 30000) + "a ]]",
		"deep braces":  strings.Repeat("${A:-", 10000),
		"calls":        "f() { eval 'f'; }; f",
		"patterns":     "A=" + strings.Repeat("a", 30000) + "\nwhile true; do A=${A%%*a*a*a*b}; done",
		"sed":          "A=" + strings.Repeat("a", 30000) + "\nwhile true; do B=$(echo $A | sed 's/a*b/x/g'); done",
		"replacements": "A=" + strings.Repeat("a", 30000) + "\nA=${A//a/aaaaaaaaaaaaaaaaaaaaa}",
		"variables":    "x=a\nwhile true; do x=a$x; eval \"V$x=1\"; done",
		"long":         strings.Repeat("#", 1<<20),
		"if":           strings.Repeat("if :; then ", 5000) + strings.Repeat("fi;", 5000),
		"pipes":        strings.Repeat("echo a | ", 20000) + "cat",
		"and":          strings.Repeat("true && ", 20000) + "true",
	} {
		start := time.Now()
		if err := shell().Source(t.Context(), "x.sh", text); err == nil && name != "and" {
			t.Errorf("%s: it is evaluated", name)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: it takes %s", name, took)
		}
	}
}

// FuzzSource checks that any script ends and only sets variables that an image can have.
func FuzzSource(f *testing.F) {
	scripts, err := filepath.Glob("testdata/activate.d/*.sh")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range scripts {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Add("A=${A#*b}${#A}${A:1:2}; for i in \"$@\" a*; do eval \"B$i=1\"; done; [[ $A =~ x|y && ! -f $A ]] || export C=$(echo a | sed 's/a/\\0/')")
	f.Fuzz(func(t *testing.T, text string) {
		s := shell()
		_ = s.Source(t.Context(), "etc/conda/activate.d/x.sh", text)
		for name, value := range s.Exported() {
			if strings.ContainsAny(name, "=\x00") || name == "" || strings.ContainsRune(value, 0) {
				t.Errorf("%q sets %q to %q", text, name, value)
			}
		}
	})
}

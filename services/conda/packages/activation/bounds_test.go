package activation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/packages/activation"
	"slipway.dev/services/internal/limits"
)

// TestBounded checks the time and memory that hostile scripts use.
func TestBounded(t *testing.T) {
	many, long := "set -- "+strings.Repeat("a ", 990)+"\n", "A="+strings.Repeat("a", 30000)+"\n"
	forever := func(body string) string { return "while :; do " + body + "\ndone\n" }
	for name, text := range map[string]string{
		"arguments":     many + ": " + strings.Repeat("$@", 31000),
		"quoted":        many + ": \"" + strings.Repeat("$@", 31000) + "\"",
		"joined":        many + forever(": ${@:+x}"),
		"parts":         many + forever(": "+strings.Repeat(`""`, 4000)),
		"separators":    long + "IFS=a\n" + forever(": $A"),
		"repetition":    forever("[[ a =~ " + strings.Repeat("(aa?){1000}", 80) + " ]]"),
		"repeated sed":  forever("B=$(echo a | sed -E 's/" + strings.Repeat("(aa?){1000}", 80) + "/b/')"),
		"groups of sed": long + forever("B=$(echo $A | sed -E 's/"+strings.Repeat("()", 400)+"a/b/g')"),
		"copies of sed": long + forever("B=$(echo $A | sed -E 's/(a*)/"+strings.Repeat(`\1`, 300)+"/')"),
		"squares":       long + forever("B=$(echo $A | sed -E 's/a*b|a/c/g')"),
		"locals":        "f() { i=a; while :; do i=a$i; local $i; done; }; f",
		"copies":        "f() { " + strings.Repeat("local A B C D E F G H I J K L M N O P; ", 20) + forever("(:)") + "}; f",
		"functions":     "x=a\n" + forever("x=a$x; eval \"$x() { : 1 2 3 4 5 6 7 8 9; }\""),
		"bytes of tr":   "A=$(echo a | tr 'a-\xff' b)\n" + forever(":"),
		"sets of tr":    long + "B=$(echo $A | tr '" + strings.Repeat("!-~", 5000) + "' b)\n" + forever(":"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		if err := shell().Source(t.Context(), "x.sh", text); err == nil {
			t.Errorf("%s: it is evaluated", name)
		}
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		if took > 2*time.Second || allocated > 400 {
			t.Errorf("%s: it takes %s and %d MiB", name, took, allocated)
		}
		t.Logf("%s: %s, %d MiB", name, took, allocated)
	}
}

// TestBreakOutsideOfItsLoop checks that scripts are not evaluated in which break or continue
// would have to leave a function, a subshell or the script: bash continues there.
func TestBreakOutsideOfItsLoop(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"export A=1; break", "continue\nexport A=1", "f() { break; }; for i in 1 2; do f; export A=$i; done", "for i in 1 2; do (break); export A=$i; done",
		"f() { for j in 1; do continue 2; done; }; for i in 1 2; do f; export A=$i; done", "for i in 1 2; do B=$(continue); export A=$i; done",
		"for i in 1 2; do while break; do :; done; export A=$i; done",
	} {
		err := shell().Source(t.Context(), "x.sh", text)
		if err == nil || !strings.Contains(err.Error(), "break or continue") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestOneBudget checks that all scripts of an environment share a limit of steps.
func TestOneBudget(t *testing.T) {
	t.Parallel()
	s, n := shell(), 0
	for ; n < 1000; n++ {
		if s.Source(t.Context(), "x.sh", strings.Repeat(":\n", 4000)) != nil {
			break
		}
	}
	if n == 0 || n > limits.ActivationStepsAll/4000 {
		t.Errorf("%d scripts of 4000 commands are evaluated", n)
	}
	if err := s.Source(t.Context(), "y.sh", "export A=1"); err == nil {
		t.Error("another script is evaluated")
	}
}

// TestOneBudgetSuffices checks that the scripts of many packages can be evaluated together.
func TestOneBudgetSuffices(t *testing.T) {
	t.Parallel()
	env := tree(t)
	s := activation.New(env, map[string]string{"PATH": env.Prefix + "/bin:/usr/bin:/bin", "CONDA_PREFIX": env.Prefix})
	scripts, err := filepath.Glob("testdata/activate.d/*.sh")
	if err != nil || len(scripts) < 30 {
		t.Fatal(scripts, err)
	}
	for range 5 {
		for _, name := range scripts {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Source(t.Context(), "etc/conda/activate.d/"+filepath.Base(name), string(raw)); err != nil && strings.Contains(err.Error(), "steps") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestCancelled checks that Source ends with the error of its context.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	env := small()
	env.Files = func(string) []string { cancel(); return []string{"a.so"} }
	s := activation.New(env, map[string]string{"CONDA_PREFIX": "/opt/conda"})
	if err := s.Source(ctx, "x.sh", "export A=1\n: $CONDA_PREFIX/lib/*\nwhile :; do :; done"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Source(ctx, "x.sh", "export A=1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s.Exported()["A"] != "" {
		t.Error("variables are changed")
	}
}

// TestExportedTogether checks the limit on the variables of all scripts and JSON files.
func TestExportedTogether(t *testing.T) {
	t.Parallel()
	s, value := shell(), strings.Repeat("a", 30000)
	if err := s.SetAll(map[string]string{"DOCUMENT": value}); err != nil {
		t.Fatal(err)
	}
	if err := s.Source(t.Context(), "x.sh", "export A="+value); err != nil {
		t.Fatal(err)
	}
	if s.Source(t.Context(), "x.sh", "export B="+value) == nil || s.Exported()["B"] != "" {
		t.Error("more than 64 KiB are set")
	}
	if s.SetAll(map[string]string{"C": value}) == nil || s.Exported()["C"] != "" {
		t.Error("a document sets more than 64 KiB")
	}
	if err := s.Source(t.Context(), "x.sh", "unset A; export B="+value); err != nil {
		t.Error(err)
	}
	var names strings.Builder
	for i := range 999 {
		fmt.Fprintf(&names, "export V%d=%s\n", i, strings.Repeat("a", 40))
	}
	if s.Source(t.Context(), "x.sh", names.String()) == nil {
		t.Error("many variables exceed 64 KiB")
	}
}

// TestStatusAsBash compares the exit status of commands with a real bash.
func TestStatusAsBash(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash:", err)
	}
	env := tree(t)
	vars := map[string]string{"PATH": env.Prefix + "/bin:/usr/bin:/bin"}
	for _, text := range []string{
		"export X=$(false) && export R=yes", "f() { local y=$(false); export R=$?; }; f", "f() { declare y=$(false) && export R=yes; }; f", "x=$(false); export R=$?", "x=$(false) y=b; export R=$?",
		"x=$(false) y=$(true); export R=$?", "false; export R=$?", "false; export Q=a R=$?", "export S=$(false) R=$?", "false; A=$?; export R=$A", "false; export R=$(echo $?)", "$(false); export R=$?", "false; $EMPTY; export R=$?",
		"f() { export R=$?; }; false; f", "f() { export R=$?; }; f $(false)", "f() { export R=$?; }; false; f $(true)", "false; for i in 1; do export R=$?; done", "false; for i in; do :; done; export R=$?",
		"false; case a in a) export R=$?;; esac", "false; case a in b) ;; esac; export R=$?", "false; case a in a) ;; esac; export R=$?", "g() { false; return; }; g; export R=$?", "g() { true; return; }; g; export R=$?",
		"false; eval 'export R=$?'", "false; eval ''; export R=$?", "false; export R=$(true | echo $?)", "true; export R=$(false | echo $?)", "false; x=$(:); export R=$?", "false; A=x B=$?; export R=$B", "false; A=$(true) B=$?; export R=$B",
		"A=$(false) B=$?; export R=$B", "export \"Y=$(false)\"; export R=$?", "false; shift 0; export R=$?", "false; A=x; export R=$?", "false; x=$(); export R=$?", "A=$(false)$?; export R=$A", "export R=$(echo a:b | sed 's/:/ /g')",
		"export R=$(echo aXbX | sed 's/X//g')", "export R=$(echo aab | sed -E 's/(a)(b)/\\2\\1/')", "set +o pipefail; export R=$?",
	} {
		at := filepath.Join(env.Prefix, "x.sh")
		if err := os.WriteFile(at, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := activation.New(env, vars)
		if err := s.Source(t.Context(), "x.sh", text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want, got := sourced(t, at, vars)["R"], s.Exported()["R"]; got != want {
			t.Errorf("%s: %q; in bash %q", text, got, want)
		}
	}
}

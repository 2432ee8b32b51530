package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// warranted lists warnings that an operator may need to act on, or that a test causes.
var warranted = []string{
	"Dockerfiles cannot be built here", // there is no buildkitd, or no permission to run it
	"data_dir is open to other users",  // the folder of a test is
}

// TestStartsAreQuiet checks that the first start, a second start with the same data, and a stop
// log no warnings. With one process per role, a role that starts before its dependencies must
// not log warnings either.
func TestStartsAreQuiet(t *testing.T) {
	t.Parallel()
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		if len(p.procs) == 1 {
			if err := p.procs[0].stop(); err != nil {
				t.Errorf("the first stop: %v", err)
			}
			p.procs[0].start()
		}
		for _, proc := range slices.Backward(p.procs) {
			if err := proc.stop(); err != nil {
				t.Errorf("%s exited with %v", proc.name, err)
			}
			for _, w := range warnings(t, proc.log()) {
				t.Errorf("%s logs %s", proc.name, w)
			}
		}
	})
	t.Run("a missing folder", func(t *testing.T) {
		t.Parallel()
		p := oneProcess(t, common(t, nil, settings{"data_dir": filepath.Join(t.TempDir(), "data")}))
		if log := p.procs[0].log(); strings.Contains(log, warranted[1]) {
			t.Errorf("slipwayd creates a folder that other users can read: %s", log)
		}
	})
}

// TestLinkedSparingly checks that no package of the program calls methods by name, as
// text/template does. Otherwise the linker would keep all exported methods, which adds a third
// to the size and the memory.
func TestLinkedSparingly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"slipwayd", "slipway"} {
		program, err := os.ReadFile(filepath.Join(binaries, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(program, []byte("runtime.gcStart")) {
			t.Errorf("%s has no function names", name)
		}
		if bytes.Contains(program, []byte("text/template.(*state).evalField")) {
			t.Errorf("%s uses templates: find the caller with -ldflags=-dumpdep", name)
		}
	}
}

// warnings returns the lines of a log above the level of information, except for warranted
// ones.
func warnings(t *testing.T, log string) (out []string) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(log) {
		var said struct{ Level, Msg string }
		var syntax *json.SyntaxError
		if err := json.Unmarshal([]byte(line), &said); errors.As(err, &syntax) {
			out = append(out, "a line that is no JSON: "+line)
			continue
		}
		lines++
		if said.Level != "INFO" && !slices.ContainsFunc(warranted, func(w string) bool { return strings.HasPrefix(said.Msg, w) }) {
			out = append(out, line)
		}
	}
	if lines == 0 {
		t.Error("the log is empty")
	}
	return out
}

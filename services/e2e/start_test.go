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

// warranted are warnings that somebody may want to do something about, or that a test
// itself causes.
var warranted = []string{
	"Dockerfiles are not built here",  // there is no buildkitd, or no right to run it
	"data_dir is open to other users", // a test's folder is
}

// TestStartsAreQuiet: the first start, the second on the same data and a stop have
// nothing to warn of. With roles in processes of their own, none finds it worth a word
// that it was there before another.
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
				t.Errorf("%s ends with %v", proc.name, err)
			}
			for _, w := range warnings(t, proc.log()) {
				t.Errorf("%s says %s", proc.name, w)
			}
		}
	})
	t.Run("a folder that is not there", func(t *testing.T) {
		t.Parallel()
		p := oneProcess(t, common(t, nil, settings{"data_dir": filepath.Join(t.TempDir(), "data")}))
		if log := p.procs[0].log(); strings.Contains(log, warranted[1]) {
			t.Errorf("it makes a folder that others can read: %s", log)
		}
	})
}

// Where anything that is linked finds methods by their names, as templates do, the linker
// keeps every exported method of the program: a third more to download and to hold.
func TestLinkedSparingly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"slipwayd", "slipway"} {
		program, err := os.ReadFile(filepath.Join(binaries, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(program, []byte("runtime.gcStart")) {
			t.Errorf("%s has no names of functions to look through", name)
		}
		if bytes.Contains(program, []byte("text/template.(*state).evalField")) {
			t.Errorf("%s fills in templates: find out what does with -ldflags=-dumpdep", name)
		}
	}
}

// warnings are the lines of a log that are no mere information, but for warranted ones.
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

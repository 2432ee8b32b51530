package conda

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/solver"
)

// StepCommand is the first argument when this program runs itself, for a step whose memory
// must be measured in a separate process.
const StepCommand = "step"

// The steps: build an index; open it and solve with it; decompress and compress packages.
const (
	buildStep      = "build"
	solveStep      = "solve"
	recompressStep = "recompress"
)

// tenth is the fraction of the requests that one round solves; each round solves different
// ones.
const tenth = 10

// A step is the result that such a process reports to its parent.
type step struct {
	// Took is the time of building or opening, Solves that of the solves.
	Took   spent
	Solves []spent
	// Same is the number of solves with rattler's solution.
	Same int
	// Records and Size, in bytes, are those of the large index.
	Records, Size int64
	// Peak is the largest resident set, in MB.
	Peak float64
}

func (p step) peak() float64 { return p.Peak }

// spent is wall-clock time and processor time in seconds.
type spent struct{ Wall, CPU float64 }

func (t spent) wall() float64 { return t.Wall }
func (t spent) cpu() float64  { return t.CPU }

// timed measures do.
func timed(do func()) spent {
	began, used := time.Now(), process.OwnCPU()
	do()
	return spent{Wall: time.Since(began).Seconds(), CPU: (process.OwnCPU() - used).Seconds()}
}

// runStep runs a step in a separate process.
func runStep(w *world.World, what string, round int) step { return runStepIn(w, what, w.Dir, round) }

// runStepIn is runStep with another folder.
func runStepIn(w *world.World, what, dir string, round int) (p step) {
	cmd := exec.CommandContext(w.Ctx, must.Get(os.Executable()), StepCommand, what, dir, strconv.Itoa(round))
	cmd.Stderr = os.Stderr
	must.Do(json.Unmarshal(must.Get(cmd.Output()), &p))
	return p
}

// TakeStep is the main function of that process.
func TakeStep(ctx context.Context) error {
	args := os.Args[2:]
	return must.Caught(func() {
		if len(args) != 3 {
			must.Fail("a step has three arguments: what, a folder, a round")
		}
		p := step{}
		switch args[0] {
		case buildStep:
			p.Took = timed(func() { buildIndex(args[1]) })
		case solveStep:
			p.solve(ctx, args[1], must.Get(strconv.Atoi(args[2])))
		case recompressStep:
			p.Took = timed(func() { recompress(args[1]) })
		default:
			must.Fail("there is no step %q", args[0])
		}
		// The maximum of getrusage(2) would be that of the parent, whose memory this
		// process shared until its exec.
		p.Peak = must.Get(process.Resident(os.Getpid(), "VmHWM:"))
		must.Do(json.NewEncoder(os.Stdout).Encode(p))
	})
}

func buildIndex(dir string) {
	for _, subdir := range indexFolders() {
		f := must.Get(os.Open(filepath.Join(dir, subdir+".json")))
		_, err := index.Build(indexFile(dir, subdir), f, index.Meta{}, func(*index.Meta) error { return nil })
		must.Do(errors.Join(err, f.Close()))
	}
}

func indexFile(dir, subdir string) string { return filepath.Join(dir, subdir+".idx") }

// solve opens the indexes and solves its tenth of the requests.
func (p *step) solve(ctx context.Context, dir string, round int) {
	forge := solver.Channel{Name: forgeName}
	p.Took = timed(func() {
		for _, subdir := range indexFolders() {
			x := must.Get(index.Open(indexFile(dir, subdir), index.Place{
				Channel: forgeName, Subdir: subdir, Folder: "https://conda.anaconda.org/" + forgeName + "/" + subdir + "/",
			}))
			forge.Sources = append(forge.Sources, x)
			if p.Records == 0 {
				p.Records, p.Size = int64(x.Meta().Records), x.Size()
			}
		}
	})
	problems, wanted := solves(forge)
	for i := round % tenth; i < len(problems); i += tenth {
		var got *solver.Solution
		p.Solves = append(p.Solves, timed(func() { got = must.Get(solver.Solve(ctx, problems[i])) }))
		if slices.Equal(files(got), wanted[i]) {
			p.Same++
		}
	}
}

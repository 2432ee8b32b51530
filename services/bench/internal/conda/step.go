package conda

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/internal/testkit/condadata"
)

// StepCommand is the first argument when this program runs itself, for a step whose memory
// must be measured in a separate process.
const StepCommand = "step"

// The steps: refresh an index; open it and solve with it; decompress and compress packages.
const (
	refreshStep    = "refresh"
	solveStep      = "solve"
	recompressStep = "recompress"
)

// tenth is the number of parts that the requests are divided into. Each round solves the
// next part.
const tenth = 10

// A step is the result of a step, which its process reports to the parent.
type step struct {
	// Took is the time of the refresh, of opening the indexes, or of compressing the packages.
	// Solves are the times of the solves.
	Took   elapsed
	Solves []elapsed
	// Same is the number of solves with rattler's solution.
	Same int
	// Records is the number of records of the large index, and Size its size in bytes.
	Records, Size int64
	// Peak is the largest resident set in MB. Own is the largest part of the resident set that
	// is not mapped from files, in MB; only a refresh measures it.
	Peak, Own float64
}

func (p step) peak() float64 { return p.Peak }
func (p step) own() float64  { return p.Own }

// elapsed is wall-clock time and processor time in seconds.
type elapsed struct{ Wall, CPU float64 }

func (t elapsed) wall() float64 { return t.Wall }
func (t elapsed) cpu() float64  { return t.CPU }

// timed measures do.
func timed(do func()) elapsed {
	began, used := time.Now(), process.OwnCPU()
	do()
	return elapsed{Wall: time.Since(began).Seconds(), CPU: (process.OwnCPU() - used).Seconds()}
}

// runStep runs a step with a folder in a separate process.
func runStep(w *world.World, what, dir string, round int) (p step) {
	cmd := exec.CommandContext(w.Ctx, must.Get(os.Executable()), StepCommand, what, dir, strconv.Itoa(round))
	cmd.Stderr = os.Stderr
	must.Do(json.Unmarshal(must.Get(cmd.Output()), &p))
	return p
}

// TakeStep runs the step that the command line names. It is the main function of the process
// that runStep starts.
func TakeStep(ctx context.Context) error {
	args := os.Args[2:]
	return must.Caught(func() {
		if len(args) != 3 {
			must.Fail("a step has three arguments: what, a folder, a round")
		}
		p := step{}
		switch args[0] {
		case refreshStep:
			p.refresh(ctx, args[1])
		case solveStep:
			p.solve(ctx, args[1], must.Get(strconv.Atoi(args[2])))
		case recompressStep:
			p.Took = timed(func() { recompress(args[1]) })
		default:
			must.Fail("there is no step %q", args[0])
		}
		// getrusage(2) would return the maximum of the parent, whose memory this process
		// shared until its exec.
		p.Peak = must.Get(process.Resident(os.Getpid(), "VmHWM:"))
		must.Do(json.NewEncoder(os.Stdout).Encode(p))
	})
}

// indexesIn returns the folder for the indexes of the lists in dir.
func indexesIn(dir string) string { return filepath.Join(dir, "indexes") }

// refresh fetches the lists of the earlier day, and then refreshes the large one.
func (p *step) refresh(ctx context.Context, dir string) {
	lists := openStore(indexesIn(dir), dir)
	for _, subdir := range indexFolders() {
		lists.list(ctx, subdir, earlier)
	}
	own := watchOwn()
	p.Took = timed(func() { lists.list(ctx, indexFolders()[0], later) })
	p.Own = own()
}

// watchOwn measures, every few milliseconds, the memory of this process that is not mapped
// from files. most ends the measurement and returns the maximum in MB.
func watchOwn() (most func() float64) {
	var largest float64
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- must.Caught(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				largest = max(largest, must.Get(process.Resident(os.Getpid(), "RssAnon:")))
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
	}()
	return func() float64 {
		close(stop)
		must.Do(<-ended)
		return largest
	}
}

// solve opens the indexes and solves the round's part of the requests.
func (p *step) solve(ctx context.Context, dir string, round int) {
	forge := solver.Channel{Name: forgeName}
	p.Took = timed(func() {
		lists := openStore(indexesIn(dir), dir)
		for _, subdir := range indexFolders() {
			x := lists.known(ctx, subdir)
			forge.Sources = append(forge.Sources, x)
			if p.Records == 0 {
				p.Records, p.Size = int64(x.Meta().Records), x.Size()
			}
		}
	})
	requests := requestsTo(forge, condadata.Solves(must.T{}))
	for i := round % tenth; i < len(requests); i += tenth {
		var got []string
		p.Solves = append(p.Solves, timed(func() { got = solved(ctx, requests[i]) }))
		if slices.Equal(got, requests[i].wanted) {
			p.Same++
		}
	}
}

package conda

import (
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/testkit/condadata"
)

// forgeName is the channel of the requests.
const forgeName = "conda-forge"

// Solve measures the Conda solver on 18,000 real records in memory: the requests of the
// reference solvers, and how often the solution equals rattler's.
func Solve(w *world.World, s *figure.Sheet) {
	problems, wanted := solves(inMemory())
	// The first run reads the records into the processor's caches.
	for range 2 {
		must.Get(solver.Solve(w.Ctx, problems[0]))
	}
	var times []float64
	same, solved := 0, 0
	for range w.Rounds {
		for i, p := range problems {
			began := process.OwnCPU()
			got, err := solver.Solve(w.Ctx, p)
			took := process.OwnCPU() - began
			must.Do(err)
			times = append(times, took.Seconds()*1e3)
			solved++
			if slices.Equal(files(got), wanted[i]) {
				same++
			}
		}
	}
	slices.Sort(times)
	s.Tell("requests", float64(len(problems)), "")
	s.Remark = "processor time including garbage collection: a solve is one goroutine, so the load of the machine does not matter"
	s.Hold("p50", times[len(times)/2], "ms", figure.AtMost(5))
	s.Hold("p99", times[len(times)*99/100], "ms", figure.AtMost(300))
	s.Hold("longest", times[len(times)-1], "ms", figure.AtMost(1000))
	s.Remark = ""
	s.Hold("as rattler", 100*float64(same)/float64(solved), "%", figure.AtLeast(97))
}

// inMemory returns the channel with decoded records.
func inMemory() solver.Channel {
	forge := solver.Channel{Name: forgeName}
	for _, subdir := range []string{"linux-64", "noarch"} {
		forge.Sources = append(forge.Sources, recordsOf(condadata.Records(reader{}, forge.Name, subdir)))
	}
	return forge
}

// solves returns the satisfiable requests as problems of a channel, and the files of
// rattler's solutions.
func solves(of solver.Channel) (problems []solver.Problem, wanted [][]string) {
	machine := []conda.VirtualPackage{
		{Name: "__glibc", Version: "2.36", Build: "0"}, {Name: "__linux", Version: "5.10", Build: "0"},
		{Name: "__unix", Version: "0", Build: "0"}, {Name: "__archspec", Version: "1", Build: "x86_64_v3"},
	}
	for _, c := range condadata.Solves(reader{}) {
		if c.Rattler == nil {
			continue
		}
		p := solver.Problem{Channels: []solver.Channel{of}, Virtual: machine}
		for _, text := range c.Specs {
			p.Specs = append(p.Specs, must.Get(conda.ParseMatchSpec(text)))
		}
		problems, wanted = append(problems, p), append(wanted, c.Rattler)
	}
	return problems, wanted
}

// recordsOf is a source in memory.
type recordsOf map[string][]conda.Record

func (r recordsOf) Records(name string) ([]conda.Record, error) { return r[name], nil }

// reader ends the section if the data cannot be read.
type reader struct{}

func (reader) Helper()                           {}
func (reader) Fatalf(format string, args ...any) { must.Fail(format, args...) }

func files(s *solver.Solution) []string {
	out := make([]string, len(s.Records))
	for i := range s.Records {
		out[i] = s.Records[i].FileName
	}
	slices.Sort(out)
	return out
}

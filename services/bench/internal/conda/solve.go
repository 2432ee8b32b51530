package conda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// forgeName is the channel of the requests.
const forgeName = "conda-forge"

// Solve measures the Conda solver on 18,000 real records in memory: how long it takes for
// requests with and without a solution, compared with rattler, and how often the solutions
// are equal. Then it measures many requests at once.
func Solve(w *world.World, s *figure.Sheet) {
	requests := requestsTo(inMemory(), slices.Concat(condadata.Solves(must.T{}), condadata.Drawn(must.T{})))
	s.Record("requests", float64(len(requests)), "")
	peer, err := startRattler(w)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: NOT COMPARED WITH RATTLER, which cannot be installed (it needs python3 with venv, and PyPI):", err)
	} else {
		defer peer.stop()
	}
	results, same := solveInTurns(w, requests, peer)
	s.Remark = "processor time including garbage collection: the load of the machine matters little"
	for name := range results {
		s.Medians(results, name, figure.P50, figure.P99)
	}
	if peer != nil {
		s.Remark = "py-rattler in process, with the same records in memory"
		s.Ratio(results, world.NameSlipway, nameRattler, figure.P50, figure.AtMost(1))
		s.Ratio(results, world.NameSlipway, nameRattler, figure.P99, figure.AtMost(2))
	} else {
		s.Remark = "NOT COMPARED WITH RATTLER, which cannot be installed"
		s.Record("rattler", 0, "")
	}
	s.Remark = ""
	s.Check("as rattler", 100*same, "%", figure.AtLeast(98))
	measureMany(w, s)
}

// solveInTurns solves each request with both solvers in turns; peer may be nil. same is the
// fraction of our solutions that equal those of rattler, 0 to 1.
func solveInTurns(w *world.World, requests []request, peer *rattler) (results figure.Results, same float64) {
	results = figure.Results{}
	// The first run reads the records into the processor's caches.
	for range 2 {
		solved(w.Ctx, requests[0])
	}
	for range w.Rounds {
		var ours, theirs []time.Duration
		for _, r := range requests {
			began := process.OwnCPU()
			got := solved(w.Ctx, r)
			ours = append(ours, process.OwnCPU()-began)
			if slices.Equal(got, r.wanted) {
				same++
			}
			if peer == nil {
				continue
			}
			took, records := peer.solve(r.texts)
			if records != len(r.wanted) {
				must.Fail("rattler's solution of %q has %d records, and had %d", r.texts, records, len(r.wanted))
			}
			theirs = append(theirs, took)
		}
		results[world.NameSlipway] = append(results[world.NameSlipway], sampleOf(ours))
		if peer != nil {
			results[nameRattler] = append(results[nameRattler], sampleOf(theirs))
		}
	}
	return results, same / float64(w.Rounds*len(requests))
}

func sampleOf(times []time.Duration) figure.Sample {
	slices.Sort(times)
	return figure.Sample{P50: figure.Percentile(times, 50), P99: figure.Percentile(times, 99)}
}

// solved returns the files of the solution of a request; nil if it has no solution.
func solved(ctx context.Context, r request) []string {
	got, err := solver.Solve(ctx, r.Problem)
	if errors.As(err, new(*solver.Conflict)) {
		return nil
	}
	must.Do(err)
	return files(got)
}

// inMemory returns the channel with decoded records.
func inMemory() solver.Channel {
	forge := solver.Channel{Name: forgeName}
	for _, subdir := range indexFolders() {
		forge.Sources = append(forge.Sources, recordsOf(condadata.Records(must.T{}, forge.Name, subdir)))
	}
	return forge
}

// A request is a problem, the strings that it was parsed from, and the files of rattler's
// solution; nil if rattler found that it has none.
type request struct {
	solver.Problem
	texts, wanted []string
}

// requestsTo returns requests as problems of a channel.
func requestsTo(of solver.Channel, from []condadata.Solve) (all []request) {
	machine := []spec.VirtualPackage{
		{Name: "__glibc", Version: "2.36", Build: "0"}, {Name: "__linux", Version: "5.10", Build: "0"},
		{Name: "__unix", Version: "0", Build: "0"}, {Name: "__archspec", Version: "1", Build: "x86_64_v3"},
	}
	for _, c := range from {
		p := solver.Problem{Channels: []solver.Channel{of}, Virtual: machine}
		for _, text := range c.Specs {
			p.Specs = append(p.Specs, must.Get(spec.ParseMatchSpec(text)))
		}
		all = append(all, request{Problem: p, texts: c.Specs, wanted: c.Rattler})
	}
	return all
}

// recordsOf is a source in memory.
type recordsOf map[string][]spec.Record

func (r recordsOf) Records(name string) ([]spec.Record, error) { return r[name], nil }

func files(s *solver.Solution) []string {
	out := make([]string, len(s.Records))
	for i := range s.Records {
		out[i] = s.Records[i].FileName
	}
	slices.Sort(out)
	return out
}

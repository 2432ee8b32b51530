package conda

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/internal/testkit/condadata"
)

// forgeRecords is the number of records in the largest folder of conda-forge.
const forgeRecords = 880_000

// indexFolders returns the folders of the indexed channel, the large one first.
func indexFolders() []string { return []string{"linux-64", "noarch"} }

// Index measures the index of a large channel: building it from JSON, opening it, and
// solving with it. The JSON and the index are in the page cache, as after a fetch.
func Index(w *world.World, s *figure.Sheet) {
	writeChannel(w.Dir)
	var made, opened []step
	for round := range w.Rounds {
		made = append(made, runStep(w, buildStep, round))
		opened = append(opened, runStep(w, solveStep, round))
		for _, subdir := range indexFolders() {
			must.Do(os.Remove(indexFile(w.Dir, subdir)))
		}
	}
	s.Tell("records", float64(opened[0].Records), "")
	s.Tell("file", float64(opened[0].Size)/1e6, "MB")
	times(s, "from JSON", each(made, func(p step) spent { return p.Took }), 3)
	times(s, "from its file", each(opened, func(p step) spent { return p.Took }), 0.1)
	var solves []spent
	same := 0
	for _, p := range opened {
		solves, same = append(solves, p.Solves...), same+p.Same
	}
	times(s, "solve p50", solves, 0.5)
	s.Tell("solve longest", slices.Max(each(solves, spent.wall)), "s")
	s.Hold("as rattler", 100*float64(same)/float64(len(solves)), "%", figure.AtLeast(97))
	s.Remark = "peak resident set of a separate process, including mapped pages of the file"
	s.Hold("RSS making it", slices.Max(each(made, step.peak)), "MB", figure.AtMost(400))
	s.Hold("RSS solving", slices.Max(each(opened, step.peak)), "MB", figure.AtMost(400))
	s.Remark = ""
}

// times records the median of the wall-clock time with a limit in seconds, and that of the
// processor time without a limit.
func times(s *figure.Sheet, metric string, of []spent, limit float64) {
	s.Remark = "wall clock, meaningful on an idle machine only"
	s.Hold(metric, figure.Median(each(of, spent.wall)), "s", figure.AtMost(limit))
	s.Remark = "processor time of all threads"
	s.Tell(metric+" cpu", figure.Median(each(of, spent.cpu)), "s")
	s.Remark = ""
}

func each[In, Out any](in []In, of func(In) Out) []Out {
	out := make([]Out, len(in))
	for i := range in {
		out[i] = of(in[i])
	}
	return out
}

// writeChannel writes the repodata.json of both folders.
func writeChannel(dir string) {
	folders := indexFolders()
	large := must.Get(os.Create(filepath.Join(dir, folders[0]+".json")))
	condadata.Large(reader{}, large, forgeName, folders[0], forgeRecords)
	// Unwritten pages would be written during the measurement.
	must.Do(errors.Join(large.Sync(), large.Close()))
	must.Do(os.WriteFile(filepath.Join(dir, folders[1]+".json"), condadata.Repodata(reader{}, forgeName, folders[1]), 0o600))
}

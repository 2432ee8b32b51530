package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"slipway.dev/services/internal/testkit/condadata"
)

// largeChannel is how many records the largest folder of conda-forge has.
const largeChannel = 880_000

// indexFolders are the folders of the channel that is indexed, the large one first.
func indexFolders() []string { return []string{"linux-64", "noarch"} }

// measureIndex measures the index of a large channel: made of its JSON, opened, and
// solved against. The JSON and the index are in the page cache, as what was just
// fetched is.
func measureIndex(w *world, s *sheet) {
	writeChannel(w.dir)
	var made, opened []step
	for round := range w.rounds {
		made = append(made, w.step(buildStep, round))
		opened = append(opened, w.step(solveStep, round))
		for _, subdir := range indexFolders() {
			check(os.Remove(indexFile(w.dir, subdir)))
		}
	}
	s.tell("records", float64(opened[0].Records), "")
	s.tell("file", float64(opened[0].Size)/1e6, "MB")
	s.times("from JSON", each(made, func(p step) spent { return p.Took }), 3)
	s.times("from its file", each(opened, func(p step) spent { return p.Took }), 0.1)
	var solves []spent
	same := 0
	for _, p := range opened {
		solves, same = append(solves, p.Solves...), same+p.Same
	}
	s.times("solve p50", solves, 0.5)
	s.tell("solve longest", slices.Max(each(solves, spent.wall)), "s")
	s.hold("as rattler", 100*float64(same)/float64(len(solves)), "%", atLeast(97))
	s.remark = "the most that was resident in a process of its own, mapped pages of the file included"
	s.hold("RSS making it", slices.Max(each(made, step.peak)), "MB", atMost(400))
	s.hold("RSS solving", slices.Max(each(opened, step.peak)), "MB", atMost(400))
	s.remark = ""
}

// times holds the median to a bar in seconds by the wall clock, and tells that of the
// processor time.
func (s *sheet) times(metric string, of []spent, limit float64) {
	s.remark = "wall clock, which counts on a quiet machine"
	s.hold(metric, median(each(of, spent.wall)), "s", atMost(limit))
	s.remark = "processor time of all threads"
	s.tell(metric+" cpu", median(each(of, spent.cpu)), "s")
	s.remark = ""
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
	large := must(os.Create(filepath.Join(dir, folders[0]+".json")))
	condadata.Large(reader{}, large, forgeName, folders[0], largeChannel)
	// What is still to be written would be written while something is measured.
	check(errors.Join(large.Sync(), large.Close()))
	check(os.WriteFile(filepath.Join(dir, folders[1]+".json"), condadata.Repodata(reader{}, forgeName, folders[1]), 0o600))
}

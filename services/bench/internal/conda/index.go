package conda

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/internal/testkit/condadata"
)

// forgeRecords is the number of records in a large folder of conda-forge.
const forgeRecords = 500_000

// indexFolders returns the folders of the indexed channel, the large one first.
func indexFolders() []string { return []string{"linux-64", "noarch"} }

// Index measures the index of a large channel: refreshing it, which builds it from the
// compressed list and records its changes; opening it; solving with it; and the size of its
// history. The lists and the index are in the page cache, as after a fetch.
func Index(w *world.World, s *figure.Sheet) {
	dir := filepath.Join(w.Dir, "large")
	writeLarge(dir)
	var refreshed, opened []step
	for round := range w.Rounds {
		refreshed = append(refreshed, runStep(w, refreshStep, dir, round))
		opened = append(opened, runStep(w, solveStep, dir, round))
		must.Do(os.RemoveAll(indexesIn(dir)))
	}
	s.Record("records", float64(opened[0].Records), "")
	s.Record("file", float64(opened[0].Size)/1e6, "MB")
	times(s, "refresh", each(refreshed, func(p step) elapsed { return p.Took }), 2)
	times(s, "from its file", each(opened, func(p step) elapsed { return p.Took }), 0.1)
	var solves []elapsed
	same := 0
	for _, p := range opened {
		solves, same = append(solves, p.Solves...), same+p.Same
	}
	times(s, "solve p50", solves, 0.5)
	s.Record("solve longest", slices.Max(each(solves, elapsed.wall)), "s")
	s.Remark = "of a sample; the limit for all requests is that of solve"
	s.Record("as rattler", 100*float64(same)/float64(len(solves)), "%")
	s.Remark = "most memory of a separate process, without mapped pages of the files, which the kernel can reclaim"
	s.Check("memory refreshing", slices.Max(each(refreshed, step.own)), "MB", figure.AtMost(300))
	s.Remark = "peak resident set of a separate process, including mapped pages of the files"
	s.Record("RSS refreshing", slices.Max(each(refreshed, step.peak)), "MB")
	s.Check("RSS solving", slices.Max(each(opened, step.peak)), "MB", figure.AtMost(400))
	s.Remark = ""
	measureHistory(w, s)
}

// times records the median of the wall-clock time with a limit in seconds, and that of the
// processor time without a limit.
func times(s *figure.Sheet, metric string, of []elapsed, limit float64) {
	s.Remark = "wall clock, meaningful on an idle machine only"
	s.Check(metric, figure.Median(each(of, elapsed.wall)), "s", figure.AtMost(limit))
	s.Remark = "processor time of all threads"
	s.Record(metric+" cpu", figure.Median(each(of, elapsed.cpu)), "s")
	s.Remark = ""
}

func each[In, Out any](in []In, of func(In) Out) []Out {
	out := make([]Out, len(in))
	for i := range in {
		out[i] = of(in[i])
	}
	return out
}

// The days of the large channel. The later list has the original records (day 0 of a
// condadata.Month), to which the reference solutions apply, and the earlier one those of day 1.
const earlier, later = 0, 1

// writeLarge writes the lists of two days. The large list changes from one day to the other
// as much as that of conda-forge does; the small one does not change.
func writeLarge(dir string) {
	large, small := indexFolders()[0], indexFolders()[1]
	month := condadata.NewMonth(must.T{}, forgeName, large)
	for day, repodata := range [][]byte{earlier: month.Repodata(must.T{}, 1), later: month.Repodata(must.T{}, 0)} {
		writeList(dir, day, large, func(z *zstd.Encoder) { condadata.Enlarge(must.T{}, z, repodata, forgeRecords) })
		writeList(dir, day, small, func(z *zstd.Encoder) {
			must.Get(z.Write(condadata.Repodata(must.T{}, forgeName, small)))
		})
	}
}

// measureHistory refreshes a channel that changes each day of a month as conda-forge does, and
// compares the size of its history with that of its index.
func measureHistory(w *world.World, s *figure.Sheet) {
	dir := filepath.Join(w.Dir, "month")
	must.Do(os.MkdirAll(indexesIn(dir), 0o700))
	lists := openStore(indexesIn(dir), dir)
	for _, subdir := range indexFolders() {
		month := condadata.NewMonth(must.T{}, forgeName, subdir)
		for day := range condadata.Days + 1 {
			writeList(dir, day, subdir, func(z *zstd.Encoder) { must.Get(z.Write(month.Repodata(must.T{}, day))) })
			lists.list(w.Ctx, subdir, day)
		}
	}
	index, history := sizeOf(indexesIn(dir), "*.idx"), sizeOf(indexesIn(dir), "*.history")
	if history == 0 {
		must.Fail("the store has no history")
	}
	s.Remark = fmt.Sprintf("of the index on disk, over %d days", condadata.Days)
	s.Check("history of a day", 100*float64(history)/float64(index)/condadata.Days, "%", figure.AtMost(2))
	s.Remark = ""
}

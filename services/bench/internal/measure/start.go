// Package measure contains the sections except those about Conda packages, which are in
// package conda. Each section measures one property that has a limit and writes its figures
// to its sheet.
package measure

import (
	"maps"
	"os"
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// Start measures the startup time of slipwayd with everything embedded: with an empty data
// folder, in which it creates all tables, and with the folder of the start before. It also
// measures the idle memory, in one process and in one for each role, and the size of the program. The
// limits are those of the memory that is the process's own: how many pages of the program the kernel maps
// depends on how it has read the file, and it reclaims them when memory is short.
func Start(w *world.World, s *figure.Sheet) {
	const starts = 5
	var ready, again, idle, own []float64
	for range starts {
		command := w.SlipwayCommand()
		server := w.Start(command)
		w.Pause(world.Settled)
		ready = append(ready, server.Took.Seconds()*1000)
		idle, own = append(idle, server.Memory()), append(own, server.Own())
		server.Stop()
		server = w.Start(command)
		again = append(again, server.Took.Seconds()*1000)
		server.Stop()
	}
	s.Record("ready, best", slices.Min(ready), "ms")
	s.Check("ready, median", figure.Median(ready), "ms", figure.AtMost(150))
	s.Check("idle memory, own", figure.Median(own), "MB", figure.AtMost(20))
	s.Record("ready again, median", figure.Median(again), "ms")
	s.Record("idle memory", figure.Median(idle), "MB")
	s.Check("program", float64(must.Get(os.Stat(w.SlipwayCommand().Path)).Size())/1e6, "MB", figure.AtMost(60))
	measureRoles(w, s)
}

// measureRoles measures the memory of a process for each role, which uses real stores, without the
// pages of its program.
func measureRoles(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage) // starts the upstream registry
	c := startCluster(w, 1)
	w.Pause(world.Settled)
	for _, role := range slices.Sorted(maps.Keys(c.roles)) {
		s.Check("idle memory, own, "+role, c.roles[role][0].Own(), "MB", figure.AtMost(12))
	}
}

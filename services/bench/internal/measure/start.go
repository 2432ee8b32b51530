// Package measure contains the sections except those about Conda packages, which are in
// package conda. Each section measures one property that has a limit and writes its figures
// to its sheet.
package measure

import (
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/world"
)

// Start measures the startup time of slipwayd with everything embedded: with an empty data
// folder, in which it creates all tables, and with the folder of the start before. It also
// measures the idle resource usage.
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
	s.Record("idle memory, own", figure.Median(own), "MB")
	s.Record("ready again, median", figure.Median(again), "ms")
	s.Check("idle memory", figure.Median(idle), "MB", figure.AtMost(48))
}

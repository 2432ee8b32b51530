// Package measure contains the sections except those about Conda packages, which are in
// package conda. Each section measures one property that has a limit and writes its figures
// to its sheet.
package measure

import (
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/world"
)

// Start measures the startup time of slipwayd with an empty data folder and everything
// embedded, and its idle resource usage.
func Start(w *world.World, s *figure.Sheet) {
	const starts = 5
	var ready, idle []float64
	for range starts {
		server := w.StartSlipway()
		w.Pause(world.Settled)
		ready, idle = append(ready, server.Took.Seconds()*1000), append(idle, server.Memory())
		server.Stop()
	}
	s.Record("ready, best", slices.Min(ready), "ms")
	s.Check("ready, median", figure.Median(ready), "ms", figure.AtMost(150))
	s.Check("idle memory", figure.Median(idle), "MB", figure.AtMost(48))
}

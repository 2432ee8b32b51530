// Package measure is the sections: each measures one thing that has a bar, and writes
// what it finds on its sheet. Those about Conda packages are in package conda.
package measure

import (
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/world"
)

// Start measures how soon slipwayd is ready, on an empty data folder with
// everything embedded, and what it takes when idle.
func Start(w *world.World, s *figure.Sheet) {
	const starts = 5
	var ready, idle []float64
	for range starts {
		server := w.StartSlipway()
		w.Pause(world.Settled)
		ready, idle = append(ready, server.Took.Seconds()*1000), append(idle, server.Memory())
		server.Stop()
	}
	s.Tell("ready, best", slices.Min(ready), "ms")
	s.Hold("ready, median", figure.Median(ready), "ms", figure.AtMost(150))
	s.Hold("idle memory", figure.Median(idle), "MB", figure.AtMost(48))
}

package main

import (
	"slices"
)

// measureStart measures how soon slipwayd is ready, on an empty data folder with
// everything embedded, and what it takes when idle.
func measureStart(w *world, s *sheet) {
	const starts = 5
	var ready, idle []float64
	for range starts {
		server := w.startSlipway()
		w.pause(settled)
		ready, idle = append(ready, server.took.Seconds()*1000), append(idle, server.memory())
		server.stop()
	}
	s.tell("ready, best", slices.Min(ready), "ms")
	s.hold("ready, median", median(ready), "ms", atMost(150))
	s.hold("idle memory", median(idle), "MB", atMost(48))
}

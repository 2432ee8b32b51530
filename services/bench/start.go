package main

import (
	"context"
	"slices"
	"time"
)

// startSection measures how soon slipwayd is ready, on an empty data folder with
// everything embedded, and what it takes when idle.
type startSection struct{}

func (startSection) name() string { return "start" }

// settled is how long a server is left alone before it counts as idle.
const settled = 3 * time.Second

func (startSection) measure(ctx context.Context, w *world, s *sheet) error {
	const starts = 5
	var took, idle []float64
	for range starts {
		server, err := w.startSlipway(ctx)
		if err != nil {
			return err
		}
		took = append(took, server.took.Seconds())
		if err := pause(ctx, settled); err != nil {
			return err
		}
		mb, err := server.memory()
		if err != nil {
			return err
		}
		idle = append(idle, mb)
		w.fleet.stop(server)
	}
	s.tell("ready, best", slices.Min(took)*1000, "ms")
	s.hold("ready, median", median(took)*1000, "ms", atMost(1000))
	s.hold("idle memory", median(idle), "MB", atMost(64))
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

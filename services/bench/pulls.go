package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pullsSection measures memory while many pull at once through a fresh slipwayd,
// each by a name of its own, as the tasks of a pipeline do.
type pullsSection struct{}

func (pullsSection) name() string { return "pulls" }

func (pullsSection) measure(ctx context.Context, w *world, s *sheet) error {
	for _, at := range []int{1, 3} {
		if err := measurePulls(ctx, w, s, at); err != nil {
			return err
		}
	}
	return nil
}

// measurePulls pulls once with so many layers at a time per pull; engines take
// three.
func measurePulls(ctx context.Context, w *world, s *sheet, layersAtOnce int) error {
	if err := w.push(ctx, taskImage); err != nil {
		return err
	}
	env, err := w.redisSetting(ctx)
	if err != nil {
		return err
	}
	server, err := w.startSlipway(ctx, env...)
	if err != nil {
		return err
	}
	defer w.fleet.stop(server)
	names, err := askNames(ctx, w, server)
	if err != nil {
		return err
	}
	if err := server.forgetPeak(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: the peak of memory counts from the start:", err)
	}
	m, err := watch(server)
	if err != nil {
		return err
	}
	begin := time.Now()
	bytes, failed := pullAll(ctx, names, layersAtOnce)
	elapsed := time.Since(begin).Seconds()
	variant := fmt.Sprintf("%d pulls, %d layers at a time: ", len(names), layersAtOnce)
	s.hold(variant+"failed", float64(len(failed)), "", atMost(0))
	if len(failed) > 0 {
		return fmt.Errorf("%d pulls did not succeed, the first: %w", len(failed), failed[0])
	}
	used, err := m.used()
	if err != nil {
		return err
	}
	mb, err := server.peak()
	if err != nil {
		return err
	}
	s.hold(variant+"peak memory", mb, "MB", atMost(256))
	s.tell(variant+"time", elapsed, "s")
	s.tell(variant+"speed", float64(bytes)/elapsed/1e6, "MB/s")
	s.tell(variant+"cpu", used[0].Seconds()/float64(bytes)*1e9, "s/GB")
	return nil
}

func askNames(ctx context.Context, w *world, server *server) ([]repository, error) {
	body := requestFor(w.up, taskImage, smallConfig)
	names := make([]repository, w.pulls)
	for i := range names {
		var err error
		if names[i], err = request(ctx, server, body); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// pullAll starts all pulls together, and answers how many bytes they read and
// what went wrong.
func pullAll(ctx context.Context, names []repository, layersAtOnce int) (int64, []error) {
	var wg sync.WaitGroup
	var total atomic.Int64
	results := make([]error, len(names))
	for i, name := range names {
		wg.Go(func() {
			n, err := pull(ctx, name, layersAtOnce)
			total.Add(n)
			results[i] = err
		})
	}
	wg.Wait()
	return total.Load(), slices.DeleteFunc(results, func(err error) bool { return err == nil })
}

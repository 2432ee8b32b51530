package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	bytes, err := pullAll(ctx, names, layersAtOnce)
	elapsed := time.Since(begin).Seconds()
	variant := fmt.Sprintf("%d pulls, %d layers at a time: ", len(names), layersAtOnce)
	s.hold(variant+"failed", float64(failures(err)), "", atMost(0))
	if err != nil {
		return err
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

// pullAll starts all pulls together and answers how many bytes they read.
func pullAll(ctx context.Context, names []repository, layersAtOnce int) (int64, error) {
	var wg sync.WaitGroup
	var total atomic.Int64
	failed := make([]error, len(names))
	for i, name := range names {
		wg.Go(func() {
			n, err := pull(ctx, name, layersAtOnce)
			total.Add(n)
			failed[i] = err
		})
	}
	wg.Wait()
	return total.Load(), errors.Join(failed...)
}

// failures counts what errors.Join joined.
func failures(err error) int {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return len(joined.Unwrap())
	}
	return 0
}

// pull reads the index, the manifest, the config and the layers of an image, and
// answers how many bytes they were.
func pull(ctx context.Context, image repository, layersAtOnce int) (int64, error) {
	c, err := dial(ctx, image.host)
	if err != nil {
		return 0, err
	}
	defer c.hangUp()
	_, manifest, err := image.childOn(c)
	if err != nil {
		return 0, err
	}
	if err := pullBlob(c, image, manifest.Config); err != nil {
		return 0, err
	}
	if err := pullLayers(ctx, c, image, manifest.Layers, layersAtOnce); err != nil {
		return 0, err
	}
	n := manifest.Config.Size
	for _, l := range manifest.Layers {
		n += l.Size
	}
	return n, nil
}

// pullLayers shares the layers out between connections: c and as many more as it
// takes.
func pullLayers(ctx context.Context, c *conn, image repository, layers []descriptor, atOnce int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, atOnce)
	for i := range atOnce {
		wg.Go(func() {
			mine := c
			if i > 0 {
				if mine, failed[i] = dial(ctx, image.host); failed[i] != nil {
					return
				}
				defer mine.hangUp()
			}
			for failed[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(layers) {
					return
				}
				failed[i] = pullBlob(mine, image, layers[n])
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func pullBlob(c *conn, image repository, d descriptor) error {
	_, n, err := c.do(image.blob(d.Digest).get(), nil)
	if err == nil && n != d.Size {
		err = fmt.Errorf("the blob %s has %d bytes, not %d", d.Digest, n, d.Size)
	}
	return err
}

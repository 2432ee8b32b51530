package measure

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// Pulls measures the memory of a fresh slipwayd during concurrent pulls. Each pull has its own
// image name, like the tasks of a pipeline. It pulls one layer at a time in the first
// measurement, and three concurrently, as engines do, in the second.
func Pulls(w *world.World, s *figure.Sheet) {
	w.Push(world.TaskImage)
	for _, atOnce := range []int{1, 3} {
		pullTogether(w, s, atOnce)
	}
}

func pullTogether(w *world.World, s *figure.Sheet, layersAtOnce int) {
	server := w.StartSlipway(w.RedisSetting()...)
	defer server.Stop()
	names := make([]engine.Repository, w.Pulls)
	for i := range names {
		names[i] = server.Request(slipwayd.RequestFor(w.Up.Addr, world.TaskImage, slipwayd.SmallConfig))
	}
	server.ForgetPeak()
	var all sync.WaitGroup
	var bytes, failures atomic.Int64
	var first atomic.Value
	used, begin := process.Watch(server.Server), time.Now()
	for _, name := range names {
		all.Go(func() {
			n, err := name.Pull(w.Ctx, layersAtOnce)
			bytes.Add(n)
			if err != nil {
				failures.Add(1)
				first.CompareAndSwap(nil, err.Error())
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begin).Seconds()
	variant := fmt.Sprintf("%d pulls, %d layers at a time: ", len(names), layersAtOnce)
	s.Check(variant+"failed", float64(failures.Load()), "", figure.AtMost(0))
	if failures.Load() > 0 {
		must.Fail("%d pulls did not succeed, the first: %v", failures.Load(), first.Load())
	}
	s.Check(variant+"peak memory", server.Peak(), "MB", figure.AtMost(256))
	s.Record(variant+"time", elapsed, "s")
	s.Record(variant+"speed", float64(bytes.Load())/elapsed/1e6, "MB/s")
	s.Record(variant+"cpu", used()[0]/float64(bytes.Load())*1e9, "s/GB")
}

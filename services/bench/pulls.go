package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// measurePulls measures memory while many pull at once through a fresh slipwayd,
// each by a name of its own, as the tasks of a pipeline do: one layer at a time, and
// three, as engines do.
func measurePulls(w *world, s *sheet) {
	w.push(taskImage)
	for _, atOnce := range []int{1, 3} {
		w.pullTogether(s, atOnce)
	}
}

func (w *world) pullTogether(s *sheet, layersAtOnce int) {
	server := w.startSlipway(w.redisSetting()...)
	defer server.stop()
	names := make([]repository, w.pulls)
	for i := range names {
		names[i] = server.request(requestFor(w.up.addr, taskImage, smallConfig))
	}
	server.forgetPeak()
	var all sync.WaitGroup
	var bytes, failures atomic.Int64
	var first atomic.Value
	used, begin := watch(server.server), time.Now()
	for _, name := range names {
		all.Go(func() {
			n, err := name.pull(w.ctx, layersAtOnce)
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
	s.hold(variant+"failed", float64(failures.Load()), "", atMost(0))
	if failures.Load() > 0 {
		fail("%d pulls did not succeed, the first: %v", failures.Load(), first.Load())
	}
	s.hold(variant+"peak memory", server.peak(), "MB", atMost(256))
	s.tell(variant+"time", elapsed, "s")
	s.tell(variant+"speed", float64(bytes.Load())/elapsed/1e6, "MB/s")
	s.tell(variant+"cpu", used()[0]/float64(bytes.Load())*1e9, "s/GB")
}

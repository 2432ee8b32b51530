package main

import (
	"context"
	"fmt"
)

// submitSection measures container requests for an existing image, with a small
// containerConfig, at one process with everything embedded.
type submitSection struct{}

func (submitSection) name() string { return "submit" }

func (submitSection) measure(ctx context.Context, w *world, s *sheet) error {
	if err := w.push(ctx, appImage); err != nil {
		return err
	}
	server, err := w.startSlipway(ctx)
	if err != nil {
		return err
	}
	defer w.fleet.stop(server)
	const alone, together = "one client", "16 clients"
	turn := func(name string, workers, count int) contender {
		body := requestFor(w.up, appImage, smallConfig)
		load := load{host: server.addr, call: post(server.addr, "/v1alpha2/container", body), workers: workers, count: count}
		return contender{name, func(ctx context.Context) (sample, error) { return load.metered(ctx, server, w.up, nil) }}
	}
	turns := []contender{turn(alone, 1, w.requests/10), turn(together, 16, w.requests/2)}
	if _, err := alternate(ctx, 1, turns); err != nil {
		return err
	}
	before, err := server.memory()
	if err != nil {
		return err
	}
	r, err := alternate(ctx, w.rounds, turns)
	if err != nil {
		return err
	}
	after, err := server.memory()
	if err != nil {
		return err
	}
	s.hold(alone+" p50", r.median(alone, p50)*1000, "ms", atMost(3))
	s.tell(alone+" p99", r.median(alone, p99)*1000, "ms")
	s.tell(alone+" cpu", r.median(alone, cpu)*1e6, "us")
	s.hold(together+" rate", r.median(together, rate), "1/s", atLeast(2000))
	s.tell(together+" p50", r.median(together, p50)*1000, "ms")
	s.tell(together+" p99", r.median(together, p99)*1000, "ms")
	s.tell(together+" cpu", r.median(together, cpu)*1e6, "us")
	s.remark = fmt.Sprintf("after %d more requests", w.rounds*(w.requests/10+w.requests/2))
	s.tell("memory before", before, "MB")
	s.tell("memory after", after, "MB")
	return w.profile(ctx, "submit", server, turns[1])
}

package builder

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/bus/buildbus"
)

// capabilities returns the engines that can work now, by queue.
func (w *Worker) capabilities() map[queue]Engine {
	out := map[queue]Engine{}
	for _, e := range w.Engines {
		for _, arch := range e.Architectures() {
			out[queue{e.Name(), arch}] = e
		}
	}
	return out
}

// presence returns the message that announces a worker with these capabilities. If full is
// not nil, the worker takes no jobs because its disk is full.
func (w *Worker) presence(capabilities map[queue]Engine, full error) *buildv1.Presence {
	p := &buildv1.Presence{Worker: w.Settings.Name, Slots: int32(w.Settings.Concurrency), DiskFull: full != nil}
	for q := range capabilities {
		p.Capabilities = append(p.Capabilities, &buildv1.Capability{Engine: q.engine, Architecture: q.arch})
	}
	slices.SortFunc(p.Capabilities, func(a, b *buildv1.Capability) int {
		return cmp.Or(cmp.Compare(a.GetEngine(), b.GetEngine()), cmp.Compare(a.GetArchitecture(), b.GetArchitecture()))
	})
	if len(capabilities) == 0 {
		p.Problem = w.problem()
	}
	if full != nil {
		p.Problem = "its disk is almost full"
	}
	for _, e := range w.Engines {
		if len(e.Architectures()) == 0 {
			p.Problems = append(p.Problems, &buildv1.EngineProblem{Engine: e.Name(), Problem: e.Problem()})
		}
	}
	return p
}

// problem returns the reason why no engine can work, and "" while an engine is starting.
func (w *Worker) problem() string {
	var all []string
	for _, e := range w.Engines {
		p := e.Problem()
		if p == "" {
			return ""
		}
		all = append(all, e.Name()+": "+p)
	}
	return strings.Join(all, "; ")
}

// diskFull returns the error of Deps.DiskFull, and logs when the disk becomes full or has
// space again.
func (w *Worker) diskFull(before error) error {
	if w.DiskFull == nil {
		return nil
	}
	full := w.DiskFull()
	switch {
	case full != nil && before == nil:
		w.Log.Warn("The worker takes no jobs, because its disk is almost full", "err", full)
	case full == nil && before != nil:
		w.Log.Info("The worker takes jobs again, because its disk has space")
	}
	return full
}

// finalPresence is the final presence of a worker, which takes no more jobs.
func (w *Worker) finalPresence() *buildv1.Presence { return &buildv1.Presence{Worker: w.Settings.Name} }

// fingerprint returns a presence without its time, for comparison.
func fingerprint(p *buildv1.Presence) string {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return string(b)
}

// announce publishes a presence. While the bus is unavailable it publishes nothing, since
// stale presences are useless.
func (w *Worker) announce(p *buildv1.Presence) {
	if !w.NATS.IsConnected() {
		return
	}
	p.SentAt = timestamppb.New(w.Now())
	b, err := proto.Marshal(p)
	if err == nil {
		err = w.NATS.Publish(buildbus.Workers, b)
	}
	if err != nil {
		w.Log.Warn("The worker could not announce itself to the build service", "err", err)
	}
}

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

// skills is what the engines can do now.
func (w *Worker) skills() map[queue]Engine {
	out := map[queue]Engine{}
	for _, e := range w.Engines {
		for _, arch := range e.Architectures() {
			out[queue{e.Name(), arch}] = e
		}
	}
	return out
}

func (w *Worker) presence(skills map[queue]Engine) *buildv1.Presence {
	p := &buildv1.Presence{Worker: w.Settings.Name, Slots: int32(w.Settings.Concurrency)}
	for q := range skills {
		p.Capabilities = append(p.Capabilities, &buildv1.Capability{Engine: q.engine, Architecture: q.arch})
	}
	slices.SortFunc(p.Capabilities, func(a, b *buildv1.Capability) int {
		return cmp.Or(cmp.Compare(a.GetEngine(), b.GetEngine()), cmp.Compare(a.GetArchitecture(), b.GetArchitecture()))
	})
	if len(skills) == 0 {
		p.Problem = w.problem()
	}
	for _, e := range w.Engines {
		if len(e.Architectures()) == 0 {
			p.Problems = append(p.Problems, &buildv1.EngineProblem{Engine: e.Name(), Problem: e.Problem()})
		}
	}
	return p
}

// problem is why nothing can be made; "" while an engine is only starting.
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

// leaving is the last presence of a worker: it takes nothing more.
func (w *Worker) leaving() *buildv1.Presence { return &buildv1.Presence{Worker: w.Settings.Name} }

// fingerprint tells presences apart, but for their time.
func fingerprint(p *buildv1.Presence) string {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return string(b)
}

// announce publishes a presence. While the bus is away it says nothing: a heap of
// old ones would be of no use.
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

package build

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/caller"
)

// GetQueue returns the numbers of waiting and running builds and the workers that this
// replica knows. Only administrators may call it.
func (s *Service) GetQueue(ctx context.Context, _ *buildv1.GetQueueRequest) (*buildv1.GetQueueResponse, error) {
	gate := caller.Gate{Platform: s.deps.Platform}
	if err := gate.Administrator(ctx, "Only the platform's administrators can see the queue"); err != nil {
		return nil, err
	}
	all, err := s.queue.Backlog(ctx)
	if err != nil {
		return nil, s.store.Fault("counting builds", err)
	}
	live := s.workers.Live()
	kinds := slices.SortedFunc(maps.Keys(all), func(a, b engine.Kind) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Architecture, b.Architecture))
	})
	out := &buildv1.GetQueueResponse{}
	for _, c := range kinds {
		out.Backlog = append(out.Backlog, backlogMessage(c, all[c]))
	}
	for _, w := range live {
		out.Workers = append(out.Workers, workerMessage(w))
	}
	slices.SortFunc(out.Workers, func(a, b *buildv1.Worker) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

func backlogMessage(c engine.Kind, u store.Unfinished) *buildv1.Backlog {
	b := &buildv1.Backlog{
		Engine: proto.String(c.Engine), Architecture: proto.String(c.Architecture), Queued: proto.Int32(int32(u.Queued)), Running: proto.Int32(int32(u.Running)),
	}
	if u.Queued > 0 {
		b.WaitingSince = timestamppb.New(u.Oldest)
	}
	return b
}

func workerMessage(w *buildv1.Presence) *buildv1.Worker {
	out := &buildv1.Worker{Name: proto.String(w.GetWorker()), Slots: proto.Int32(w.GetSlots())}
	for _, c := range w.GetCapabilities() {
		out.Makes = append(out.Makes, c.GetEngine()+"/"+c.GetArchitecture())
	}
	slices.Sort(out.Makes)
	if p := w.GetProblem(); p != "" {
		out.Problems = append(out.Problems, p)
	}
	for _, p := range w.GetProblems() {
		out.Problems = append(out.Problems, p.GetEngine()+": "+cmp.Or(p.GetProblem(), "starting"))
	}
	return out
}

package build

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
)

// ahead is how many jobs wait on the bus for each slot of the live workers: one
// that is done and one that comes next. The rest waits in SQL, where a user who
// comes later can still be served before.
const ahead = 2

// dispatch puts builds that wait on the bus, as many as the workers can take,
// in turn between their owners. Two replicas may publish the same job; the
// message id makes it one.
func (s *Service) dispatch(ctx context.Context) {
	s.closeIndexes(ctx)
	waiting, err := s.store.firstOfEach(ctx)
	if err == nil {
		waiting, err = s.ready(ctx, waiting)
	}
	if err != nil {
		s.troubled(ctx, "The queue cannot be read", err)
		return
	}
	if len(waiting) == 0 {
		return
	}
	out, err := s.store.published(ctx)
	if err != nil {
		s.troubled(ctx, "The queue cannot be read", err)
		return
	}
	if err := bus.MakeStreams(ctx, s.bus, buildbus.Streams()...); err != nil {
		s.troubled(ctx, "NATS does not take builds right now; they wait", err)
		return
	}
	for _, r := range turns(waiting, out, s.workers.slots, s.share) {
		if err := s.publish(ctx, r); err != nil {
			s.troubled(ctx, "NATS does not take builds right now; they wait", err)
			return
		}
	}
}

func (s *Service) troubled(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "Builds are held up", "what", what, "err", err)
	}
}

// share is how many builds of one kind an owner may have with the workers at a
// time. One address without a user never has every slot where there are several:
// a build that only sleeps would keep everybody else waiting for its whole time.
func (s *Service) share(r record, slots int) int {
	if r.request.GetIdentity() != nil {
		if n := s.deps.RunningUser; n > 0 {
			return n
		}
		return ahead * slots
	}
	n := max(1, slots-1)
	if s.deps.RunningAnonymous > 0 {
		n = min(n, s.deps.RunningAnonymous)
	}
	return n
}

// turns picks who goes next: always the owner with the fewest builds out, and of
// those with equally many the one who has waited longest. Nobody gets more than
// their share.
func turns(waiting, out []record, slots func(capability) int, share func(record, int) int) []record {
	type holding struct {
		owner string
		kind  capability
	}
	room, most := map[capability]int{}, map[capability]int{}
	busy, held := map[string]int{}, map[holding]int{}
	for _, r := range waiting {
		c := capabilityOf(r)
		most[c] = slots(c)
		room[c] = ahead * most[c]
	}
	give := func(r record) {
		c := capabilityOf(r)
		room[c]--
		busy[r.owner]++
		held[holding{r.owner, c}]++
	}
	for _, r := range out {
		give(r)
	}
	waits := func(r record) bool {
		c := capabilityOf(r)
		return room[c] <= 0 || held[holding{r.owner, c}] >= share(r, most[c])
	}
	var picked []record
	for {
		open := slices.DeleteFunc(slices.Clone(waiting), waits)
		if len(open) == 0 {
			return picked
		}
		next := slices.MinFunc(open, func(a, b record) int {
			return cmp.Or(cmp.Compare(busy[a.owner], busy[b.owner]), a.created.Compare(b.created), cmp.Compare(a.id, b.id))
		})
		picked = append(picked, next)
		give(next)
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(r record) bool { return r.id == next.id })
	}
}

func capabilityOf(r record) capability {
	recipe := r.request.GetRecipe()
	return capability{recipe.GetEngine(), architecture(recipe)}
}

// preface writes the line that a build's log begins with, before a worker can.
func (s *Service) preface(ctx context.Context, r record) error {
	if r.request.GetPreface() == "" || r.publications > 0 {
		return nil
	}
	raw, err := proto.Marshal(&buildv1.LogChunk{Entries: []*buildv1.LogEntry{{Text: r.request.GetPreface()}}})
	if err != nil {
		return err
	}
	if err := bus.Publish(ctx, s.bus, buildbus.Log(r.id), raw, jetstream.WithMsgID(r.id+".preface")); err != nil {
		return fmt.Errorf("beginning the log of %s: %w", r.id, err)
	}
	return nil
}

// publish puts a job on the bus, and notes it only when the bus has it.
func (s *Service) publish(ctx context.Context, r record) error {
	raw, err := proto.Marshal(&buildv1.Job{BuildId: r.id})
	if err != nil {
		return err
	}
	if err := s.preface(ctx, r); err != nil {
		return err
	}
	c := capabilityOf(r)
	// It waited in SQL: the trace it belongs to is its request's.
	err = bus.Publish(bus.WithTraceParent(ctx, r.traceParent), s.bus, buildbus.Job(c.engine, c.architecture, r.id), raw,
		jetstream.WithMsgID(r.id+"."+strconv.FormatInt(r.publications, 10)))
	if err != nil {
		return fmt.Errorf("publishing %s: %w", r.id, err)
	}
	return s.store.markPublished(ctx, r, s.deps.Now())
}

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

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
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
	waiting, err := s.store.FirstOfEach(ctx)
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
	out, err := s.store.Published(ctx)
	if err != nil {
		s.troubled(ctx, "The queue cannot be read", err)
		return
	}
	if err := bus.MakeStreams(ctx, s.bus, buildbus.Streams()...); err != nil {
		s.troubled(ctx, "NATS does not take builds right now; they wait", err)
		return
	}
	for _, r := range turns(waiting, out, s.workers.Slots, s.share) {
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
func (s *Service) share(r store.Record, slots int) int {
	if r.Request.GetIdentity() != nil {
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
func turns(waiting, out []store.Record, slots func(engine.Kind) int, share func(store.Record, int) int) []store.Record {
	type holding struct {
		owner string
		kind  engine.Kind
	}
	room, most := map[engine.Kind]int{}, map[engine.Kind]int{}
	busy, held := map[string]int{}, map[holding]int{}
	for _, r := range waiting {
		c := r.Kind()
		most[c] = slots(c)
		room[c] = ahead * most[c]
	}
	give := func(r store.Record) {
		c := r.Kind()
		room[c]--
		busy[r.Owner]++
		held[holding{r.Owner, c}]++
	}
	for _, r := range out {
		give(r)
	}
	waits := func(r store.Record) bool {
		c := r.Kind()
		return room[c] <= 0 || held[holding{r.Owner, c}] >= share(r, most[c])
	}
	var picked []store.Record
	for {
		open := slices.DeleteFunc(slices.Clone(waiting), waits)
		if len(open) == 0 {
			return picked
		}
		next := slices.MinFunc(open, func(a, b store.Record) int {
			return cmp.Or(cmp.Compare(busy[a.Owner], busy[b.Owner]), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
		})
		picked = append(picked, next)
		give(next)
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(r store.Record) bool { return r.ID == next.ID })
	}
}

// preface writes the line that a build's log begins with, before a worker can.
func (s *Service) preface(ctx context.Context, r store.Record) error {
	if r.Request.GetPreface() == "" || r.Publications > 0 {
		return nil
	}
	raw, err := proto.Marshal(&buildv1.LogChunk{Entries: []*buildv1.LogEntry{{Text: r.Request.GetPreface()}}})
	if err != nil {
		return err
	}
	if err := bus.Publish(ctx, s.bus, buildbus.Log(r.ID), raw, jetstream.WithMsgID(r.ID+".preface")); err != nil {
		return fmt.Errorf("beginning the log of %s: %w", r.ID, err)
	}
	return nil
}

// publish puts a job on the bus, and notes it only when the bus has it.
func (s *Service) publish(ctx context.Context, r store.Record) error {
	raw, err := proto.Marshal(&buildv1.Job{BuildId: r.ID})
	if err != nil {
		return err
	}
	if err := s.preface(ctx, r); err != nil {
		return err
	}
	c := r.Kind()
	// It waited in SQL: the trace it belongs to is its request's.
	err = bus.Publish(bus.WithTraceParent(ctx, r.TraceParent), s.bus, buildbus.Job(c.Engine, c.Architecture, r.ID), raw,
		jetstream.WithMsgID(r.ID+"."+strconv.FormatInt(r.Publications, 10)))
	if err != nil {
		return fmt.Errorf("publishing %s: %w", r.ID, err)
	}
	return s.store.MarkPublished(ctx, r, s.deps.Now())
}

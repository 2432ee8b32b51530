package container

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
)

// lateRequests is when the requests of an ended build are read a second time: a request that
// joined the build may be stored after its end. It is longer than the timeout of a request.
const lateRequests = 65 * time.Second

// announce publishes an event for each container that waited for a build, until ctx ends.
func (s *Service) announce(ctx context.Context) {
	consumer := eventbus.ContainerConsumer()
	consumer.Outage = &retry.Outage{Log: s.deps.Log, Fails: "Events of builds cannot be read right now; retrying", Works: "Events of builds are read again"}
	publishing := &retry.Outage{Log: s.deps.Log, Fails: "Containers of ended builds cannot be announced right now; retrying", Works: "Containers of ended builds are announced again"}
	retry.Forever(ctx, consumer.Outage, func(ctx context.Context) error {
		if err := bus.CreateStreams(ctx, s.events, eventbus.Stream()); err != nil {
			return err
		}
		return bus.Consume(ctx, s.events, consumer, func(ctx context.Context, m jetstream.Msg) { s.consumeBuild(ctx, m, publishing) })
	})
}

// consumeBuild handles an event of a build, twice if the build has ended. Consumers recognise
// the ids of events that it publishes again.
func (s *Service) consumeBuild(ctx context.Context, m jetstream.Msg, publishing *retry.Outage) {
	e := &eventsv1.Event{}
	if err := proto.Unmarshal(m.Data(), e); err != nil || e.GetBuild().GetBuildId() == "" {
		s.deps.Log.ErrorContext(ctx, "An event of a build is malformed and was dropped", "err", err)
		_ = m.Term() // a retry would fail as well
		return
	}
	if e.GetBuild().Succeeded == nil { // it has only started
		_ = m.Ack()
		return
	}
	if err := s.store.WakeScans(ctx, e.GetBuild().GetBuildId(), s.deps.Now()); err != nil { // otherwise it is found later
		s.deps.Log.WarnContext(ctx, "The scans of a build were not started", "build_id", e.GetBuild().GetBuildId(), "err", err)
	}
	s.scanner.wake(s.scanner.due)
	if e.GetBuild().GetSucceeded() {
		if err := s.noteKept(ctx, e.GetBuild().GetBuildId()); err != nil { // otherwise it is noted when it is described
			s.deps.Log.WarnContext(ctx, "The digest of a kept image was not stored", "build_id", e.GetBuild().GetBuildId(), "err", err)
		}
	}
	if err := s.announceBuild(ctx, e, m.InProgress); err != nil {
		publishing.Failed(ctx, err, "build_id", e.GetBuild().GetBuildId())
		_ = m.NakWithDelay(2 * time.Second)
		return
	}
	publishing.Succeeded(ctx)
	if wait := e.GetTime().AsTime().Add(lateRequests).Sub(s.deps.Now()); wait > 0 {
		_ = m.NakWithDelay(wait)
		return
	}
	_ = m.Ack()
}

// announceBuild publishes an event for each request of a user that was made while its build was
// unfinished. It calls progress after each batch, so that the event is not redelivered meanwhile.
func (s *Service) announceBuild(ctx context.Context, e *eventsv1.Event, progress func() error) error {
	waiting := map[string]int{} // number of requests by user and workspace
	for after, n := "", 0; n < limits.EventRequests; {
		batch, err := s.announceBatch(ctx, e, after, waiting)
		if err != nil || len(batch) == 0 {
			return err
		}
		n += len(batch)
		after = batch[len(batch)-1].Key
		if err := progress(); err != nil {
			return err
		}
	}
	return nil
}

// announceBatch publishes events for the next requests after a key, and returns them.
func (s *Service) announceBatch(ctx context.Context, e *eventsv1.Event, after string, waiting map[string]int) ([]store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, eventbus.AckWait*8/10)
	defer cancel()
	b := e.GetBuild()
	batch, err := s.store.OfUsers(ctx, b.GetBuildId(), b.GetEndTime().AsTime().Add(lateRequests), after)
	if err != nil {
		return nil, err
	}
	for _, rec := range batch {
		who := rec.Plan.GetIdentity()
		key := fmt.Sprint(who.GetEndpoint(), " ", who.GetUserId(), " ", who.GetWorkspaceId())
		if rec.Plan.GetBuilt() || waiting[key] == limits.EventRequestsUser {
			continue
		}
		waiting[key]++
		if err := eventbus.Publish(ctx, s.events, eventbus.Containers, s.containerEvent(e, rec)); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// containerEvent returns the event of a request whose build has ended.
func (s *Service) containerEvent(e *eventsv1.Event, rec store.Record) *eventsv1.Event {
	b, id, who := e.GetBuild(), tokens.IDOf(rec.Key), rec.Plan.GetIdentity()
	kind := eventbus.ContainerFailed
	if b.GetSucceeded() {
		kind = eventbus.ContainerReady
	}
	return &eventsv1.Event{
		Id: id + "." + kind, Type: kind, Time: e.GetTime(),
		Endpoint: who.GetEndpoint(), UserId: who.GetUserId(), WorkspaceId: who.GetWorkspaceId(),
		Data: &eventsv1.Event_Container{Container: &eventsv1.ContainerEvent{
			RequestId: id, BuildId: b.GetBuildId(), TargetImage: s.issuedTarget(rec.Plan), WorkflowId: rpc.Optional(rec.Request.GetWorkflowId()),
			CreationTime: timestamppb.New(rec.Created), Succeeded: b.GetSucceeded(), Reason: b.Reason, Message: b.Message,
		}},
	}
}

// announcePatch publishes the event of a patch. A failure is only logged, since the image exists.
func (s *Service) announcePatch(ctx context.Context, out *containerv1.PatchImageResponse, made submission) {
	who := made.plan.GetIdentity()
	if s.events == nil || who == nil {
		return
	}
	e := &eventsv1.ContainerEvent{
		RequestId: out.GetRequestId(), BuildId: out.GetBuildId(), TargetImage: s.issuedPermanent(made.plan), CreationTime: timestamppb.New(s.deps.Now()),
		Succeeded: made.plan.GetBuilt(), PatchedFrom: out.PatchedFrom,
	}
	for _, platform := range out.GetChanges() {
		for _, c := range platform.GetPackages() {
			if text := changeText(c); len(text) <= limits.PatchChange && !slices.Contains(e.Changes, text) && len(e.GetChanges()) < limits.PatchChanges {
				e.Changes = append(e.Changes, text)
			}
		}
	}
	err := eventbus.Publish(ctx, s.events, eventbus.Containers, &eventsv1.Event{
		Id: out.GetRequestId() + "." + eventbus.ContainerPatched, Type: eventbus.ContainerPatched, Time: e.GetCreationTime(),
		Endpoint: who.GetEndpoint(), UserId: who.GetUserId(), WorkspaceId: who.GetWorkspaceId(),
		Data: &eventsv1.Event_Container{Container: e},
	})
	if err != nil {
		s.deps.Log.WarnContext(ctx, "The event of a patch was not published", "request_id", out.GetRequestId(), "err", err)
	}
}

// issuedPermanent returns the name of a frozen image, or of one that is kept for everyone; nil for a name that is secret.
func (s *Service) issuedPermanent(p *containerv1.Plan) *string {
	if !hasPermanentName(p) || oci.IsSecretKeptID(p.GetKeptId()) {
		return nil
	}
	return proto.String(s.targetImage(p))
}

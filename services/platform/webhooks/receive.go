package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// receive stores events of the bus until ctx ends.
func (s *Service) receive(ctx context.Context, js jetstream.JetStream) {
	consumer := eventbus.WebhookConsumer()
	consumer.Outage = &retry.Outage{Log: s.deps.Log, Fails: "Events for webhooks cannot be read right now; retrying", Works: "Events for webhooks are read again"}
	storing := &retry.Outage{Log: s.deps.Log, Fails: "Events for webhooks cannot be stored right now; retrying", Works: "Events for webhooks are stored again"}
	retry.Forever(ctx, consumer.Outage, func(ctx context.Context) error {
		if err := bus.CreateStreams(ctx, js, eventbus.Stream()); err != nil {
			return err
		}
		return bus.Consume(ctx, js, consumer, func(ctx context.Context, m jetstream.Msg) { s.consume(ctx, m, storing) })
	})
}

// consume acknowledges an event after its deliveries are stored.
func (s *Service) consume(ctx context.Context, m jetstream.Msg, storing *retry.Outage) {
	e := &eventsv1.Event{}
	if err := proto.Unmarshal(m.Data(), e); err != nil || e.GetId() == "" || eventbus.Subject(e) == "" {
		s.deps.Log.ErrorContext(ctx, "An event is malformed, or of a newer release, and was dropped", "err", err)
		_ = m.Term() // a retry would fail as well
		return
	}
	limited, cancel := context.WithTimeout(ctx, eventbus.AckWait*8/10)
	defer cancel()
	if err := s.storeEvent(limited, e); err != nil {
		storing.Failed(ctx, err, "event", e.GetId())
		_ = m.NakWithDelay(2 * time.Second)
		return
	}
	storing.Succeeded(ctx)
	_ = m.Ack()
}

// storeEvent adds a delivery for each webhook whose events an event matches. It may be repeated.
func (s *Service) storeEvent(ctx context.Context, e *eventsv1.Event) error {
	if e.GetEndpoint() != s.deps.Endpoint && !slices.Contains(s.deps.Aliases, e.GetEndpoint()) {
		return nil // of an anonymous client, or of a user of another platform
	}
	hooks, err := s.store.hooksOf(ctx, ownerOf(e))
	hooks = slices.DeleteFunc(hooks, func(h hook) bool { return !h.disabled.IsZero() || !matches(h.events, e.GetType()) })
	if err != nil || len(hooks) == 0 {
		return err
	}
	d, err := s.busMessage(e)
	if err != nil {
		return err
	}
	for _, h := range hooks {
		_, err := s.store.insertDelivery(ctx, h.id, d, s.deps.Now())
		if errors.Is(err, errTooMany) {
			err = s.disable(ctx, h, fmt.Sprintf("More than %d messages wait", limits.DeliveriesWaiting))
		}
		if err != nil {
			return err
		}
	}
	s.wake()
	return nil
}

// ownerOf returns the owner whose webhooks get an event.
func ownerOf(e *eventsv1.Event) owner {
	if e.GetWorkspaceId() != 0 {
		return owner{workspaceID: e.GetWorkspaceId()}
	}
	return owner{userID: e.GetUserId()}
}

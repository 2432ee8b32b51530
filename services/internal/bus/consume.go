package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/retry"
)

// CreateStreams creates the streams that do not exist. Existing streams retain their
// replicas and limits, which an operator may have changed.
func CreateStreams(ctx context.Context, js jetstream.JetStream, configs ...jetstream.StreamConfig) error {
	for _, config := range configs {
		_, err := js.Stream(ctx, config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = js.CreateStream(ctx, config)
		}
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("creating the stream %s: %w", config.Name, err)
		}
	}
	return nil
}

// A Consumer is a durable consumer of a stream. Processes that use the same durable name
// share its messages.
type Consumer struct {
	Stream string
	Config jetstream.ConsumerConfig
	// Prefetch is the number of messages that are fetched ahead.
	Prefetch int
	// Outage, if not nil, is over when messages can be received.
	Outage *retry.Outage
}

// Consume creates the consumer and calls handle for its messages, one after another, with
// the trace of the publisher in the context. handle must acknowledge them. When ctx is
// done, Consume returns prefetched messages to the stream and returns nil. It returns an
// error if NATS does.
func Consume(ctx context.Context, js jetstream.JetStream, c Consumer, handle func(context.Context, jetstream.Msg)) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, c.Stream, c.Config)
	if err != nil {
		return fmt.Errorf("creating a consumer of %s: %w", c.Stream, err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(c.Prefetch), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	if c.Outage != nil {
		c.Outage.Succeeded(ctx)
	}
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			returnMessages(messages, m)
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue
		case err != nil:
			return err
		}
		traced, span := Receive(ctx, m)
		handle(traced, m)
		span.End()
	}
}

// returnMessages returns unhandled messages to the stream: first, which may be nil, and the
// prefetched ones. Otherwise they would only be redelivered after AckWait.
func returnMessages(messages jetstream.MessagesContext, first jetstream.Msg) {
	messages.Drain()
	for m := first; ; {
		if m != nil {
			_ = m.Nak()
		}
		var err error
		if m, err = messages.Next(jetstream.NextMaxWait(time.Second)); err != nil {
			return
		}
	}
}

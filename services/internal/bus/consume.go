package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MakeStreams creates the streams that are missing. The others keep the replicas and
// limits that an operator has given them.
func MakeStreams(ctx context.Context, js jetstream.JetStream, configs ...jetstream.StreamConfig) error {
	for _, config := range configs {
		_, err := js.Stream(ctx, config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = js.CreateStream(ctx, config)
		}
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("making the stream %s: %w", config.Name, err)
		}
	}
	return nil
}

// Consumer is a durable consumer of a stream, as Consume makes it. All who use the
// same name share its messages.
type Consumer struct {
	Stream string
	Config jetstream.ConsumerConfig
	// AtOnce is how many messages are fetched ahead.
	AtOnce int
}

// Consume gives the messages of a stream to handle, one after another, each in the
// trace that it was published in; handle acknowledges them. What was fetched but not
// handled when ctx ends is given back at once. It ends with ctx, without an error,
// or when NATS refuses.
func Consume(ctx context.Context, js jetstream.JetStream, c Consumer, handle func(context.Context, jetstream.Msg)) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, c.Stream, c.Config)
	if err != nil {
		return fmt.Errorf("making a consumer of %s: %w", c.Stream, err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(c.AtOnce), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			giveBack(messages, m)
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

// giveBack returns messages that nobody handles: first, which may be nil, and what
// was fetched ahead. Otherwise they would wait for their AckWait.
func giveBack(messages jetstream.MessagesContext, first jetstream.Msg) {
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

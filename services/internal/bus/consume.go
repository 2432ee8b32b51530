package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Again does something until ctx ends: once more, a second after it has ended,
// whether with an error, which is told, or without.
func Again(ctx context.Context, do func(context.Context) error, troubled func(error)) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			troubled(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// MakeStreams makes sure that streams are there. It leaves their replicas and
// limits as an operator has set them.
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

// Consumer is one of a stream, as Consume makes it. All who name it alike share
// its messages.
type Consumer struct {
	Stream string
	Config jetstream.ConsumerConfig
	// AtOnce is how many messages are fetched ahead.
	AtOnce int
}

// Consume gives the messages of a stream to take, one after another, which
// acknowledges them, each in the trace that it was published in. It ends with ctx, without an error, or when NATS refuses.
func Consume(ctx context.Context, js jetstream.JetStream, c Consumer, take func(context.Context, jetstream.Msg)) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, c.Stream, c.Config)
	if err != nil {
		return fmt.Errorf("making a consumer of %s: %w", c.Stream, err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(c.AtOnce), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return nil
		}
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			continue
		}
		if err != nil {
			return err
		}
		traced, span := Receive(ctx, m)
		take(traced, m)
		span.End()
	}
}

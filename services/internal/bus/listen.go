package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// listenBuffer is how many messages wait for a slow handler before NATS drops more.
const listenBuffer = 1024

// Listen handles the messages on a subject, one after another, until ctx ends; then
// it returns nil, and nothing of it is left. Of several who listen with the same
// queue one gets each message; without a queue ("") all do.
func Listen(ctx context.Context, nc *nats.Conn, subject, queue string, handle func(context.Context, *nats.Msg)) error {
	messages := make(chan *nats.Msg, listenBuffer)
	sub, err := nc.ChanQueueSubscribe(subject, queue, messages)
	if err != nil {
		return fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			handle(ctx, m)
		}
	}
}

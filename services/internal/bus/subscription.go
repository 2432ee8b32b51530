package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// listenBuffer is the number of messages that wait for a slow handler. NATS drops further
// ones.
const listenBuffer = 1024

// A Subscription buffers the messages of a subject until Run handles them. Use Subscribe to
// create one.
type Subscription struct {
	sub      *nats.Subscription
	messages chan *nats.Msg
}

// Subscribe subscribes to a subject. Messages that are published before Run are not lost.
// Of the subscriptions with the same queue, one receives each message. With queue "", all
// do.
func Subscribe(nc *nats.Conn, subject, queue string) (*Subscription, error) {
	messages := make(chan *nats.Msg, listenBuffer)
	sub, err := nc.ChanQueueSubscribe(subject, queue, messages)
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	return &Subscription{sub, messages}, nil
}

// Run calls handle for the messages, one after another, until ctx is done. Then it
// unsubscribes.
func (s *Subscription) Run(ctx context.Context, handle func(context.Context, *nats.Msg)) {
	defer func() { _ = s.sub.Unsubscribe() }()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.messages:
			handle(ctx, m)
		}
	}
}

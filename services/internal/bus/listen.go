package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// listenBuffer is how many messages wait for a slow handler before NATS drops more.
const listenBuffer = 1024

// Subscription keeps the messages on a subject until Run handles them. Make it with
// Subscribe.
type Subscription struct {
	sub      *nats.Subscription
	messages chan *nats.Msg
}

// Subscribe makes a subscription, so that nothing is missed that is published before
// Run. Of several with the same queue one gets each message; without a queue ("") all
// do.
func Subscribe(nc *nats.Conn, subject, queue string) (*Subscription, error) {
	messages := make(chan *nats.Msg, listenBuffer)
	sub, err := nc.ChanQueueSubscribe(subject, queue, messages)
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	return &Subscription{sub, messages}, nil
}

// Run handles the messages, one after another, until ctx ends; then nothing of the
// subscription is left.
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

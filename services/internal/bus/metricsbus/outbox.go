package metricsbus

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/retry"
)

// BatchEvents is the maximum number of events in a message.
const BatchEvents = 500

// A Queue stores the events of one source until they are published.
type Queue interface {
	// Next returns the oldest events, at most limit of them, with consecutive ordinals. The
	// batch is empty if the queue is empty. The event with a given ordinal never changes.
	Next(ctx context.Context, limit int) (*metricsv1.Batch, error)
	// Published removes a batch from the queue.
	Published(ctx context.Context, b *metricsv1.Batch) error
}

// An Outbox publishes the events of a Queue in order, and retries each batch until the
// stream has accepted it. A batch may be published twice. The metrics service detects this
// by the ordinals. Use NewOutbox to create one.
type Outbox struct {
	Options
	queue   Queue
	publish func(context.Context, *metricsv1.Batch) error
}

// Options are the options of an Outbox.
type Options struct {
	// Name describes the events in the log, e.g. "pulls".
	Name string
	Log  *slog.Logger
	// Wake receives a value when there may be new events.
	Wake <-chan struct{}
	// Linger is the time to wait for further events after a batch that was not full.
	Linger time.Duration
	// PollInterval is the interval between checks for events without a value on Wake, or 0 for none.
	PollInterval time.Duration
}

// NewOutbox returns an Outbox. It publishes nothing before Run.
func NewOutbox(nc *nats.Conn, q Queue, o Options) (*Outbox, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Outbox{Options: o, queue: q, publish: func(ctx context.Context, b *metricsv1.Batch) error {
		if !nc.IsConnected() { // each attempt would add a copy to the connection's buffer
			return nats.ErrDisconnected
		}
		raw, err := proto.Marshal(b)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, publishTime)
		defer cancel()
		_, err = js.Publish(ctx, Events, raw)
		return err
	}}, nil
}

// The pause before the first retry, the maximum pause, and the timeouts of one batch, of
// publishing it, and of publishing the remaining events at the end.
const (
	firstPause  = 100 * time.Millisecond
	longPause   = 2 * time.Second
	batchTime   = 30 * time.Second
	publishTime = 5 * time.Second
	lastAttempt = 3 * time.Second
)

// Run publishes events until ctx is done. Then it publishes the remaining events, for a
// limited time. Run must not be called concurrently.
func (o *Outbox) Run(ctx context.Context) {
	pause, outage := firstPause, &retry.Outage{Log: o.Log.With("events", o.Name), Fails: "Events wait to be counted", Works: "Events are being counted again"}
	for ctx.Err() == nil {
		n, err := o.step(ctx)
		if err != nil {
			outage.Failed(ctx, err)
			o.wait(ctx, pause, nil)
			pause = min(2*pause, longPause)
			continue
		}
		outage.Succeeded(ctx)
		pause = firstPause
		switch {
		case n == 0:
			o.wait(ctx, o.PollInterval, o.Wake)
		case n < BatchEvents:
			o.wait(ctx, o.Linger, nil)
		}
	}
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAttempt)
	defer cancel()
	for {
		if n, err := o.step(rest); n == 0 || err != nil {
			return
		}
	}
}

// wait waits for the duration, the end of ctx, or a value on wake. If d is 0 and wake is
// not nil, there is no time limit.
func (o *Outbox) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	var over <-chan time.Time
	if d > 0 || wake == nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-over:
	case <-wake:
	}
}

// step publishes one batch and returns how many events it had.
func (o *Outbox) step(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	b, err := o.queue.Next(ctx, BatchEvents)
	if err != nil {
		return 0, fmt.Errorf("reading events: %w", err)
	}
	if len(b.GetEvents()) == 0 {
		return 0, nil
	}
	if err := o.publish(ctx, b); err != nil {
		return 0, fmt.Errorf("publishing events: %w", err)
	}
	if err := o.queue.Published(ctx, b); err != nil {
		return 0, fmt.Errorf("removing published events: %w", err)
	}
	return len(b.GetEvents()), nil
}

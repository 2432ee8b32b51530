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
)

// BatchEvents is the most events in one message.
const BatchEvents = 500

// Queue keeps the events of one source until the stream has them.
type Queue interface {
	// Next returns the oldest events, at most so many, without a gap; a batch without
	// events when there are none. What it returns for an ordinal never changes.
	Next(ctx context.Context, most int) (*metricsv1.Batch, error)
	// Published lets go of a batch.
	Published(ctx context.Context, b *metricsv1.Batch) error
}

// Outbox publishes what a Queue keeps, in order and each batch until the stream has
// it. So a batch may be published twice, and the metrics room knows it then by its
// ordinals. Make it with NewOutbox.
type Outbox struct {
	Options
	queue   Queue
	publish func(context.Context, *metricsv1.Batch) error
}

// Options are an outbox's settings.
type Options struct {
	// Name says in the log what waits, e.g. "pulls".
	Name string
	Log  *slog.Logger
	// Wake gets a value when there may be something new.
	Wake <-chan struct{}
	// Linger is how long to wait for more events after a batch that was not full.
	Linger time.Duration
	// Look is how often to look for events though nobody said that there are any; 0
	// is never.
	Look time.Duration
}

// NewOutbox makes an outbox; it does nothing until Run.
func NewOutbox(nc *nats.Conn, q Queue, o Options) (*Outbox, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Outbox{Options: o, queue: q, publish: func(ctx context.Context, b *metricsv1.Batch) error {
		if !nc.IsConnected() { // it would wait in the connection's buffer, again with each try
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

// Waiting times of an outbox: before the first retry, at most before any other, for
// one batch, and for what is left when it is told to stop.
const (
	firstPause  = 100 * time.Millisecond
	longPause   = 2 * time.Second
	batchTime   = 30 * time.Second
	publishTime = 5 * time.Second
	lastAttempt = 3 * time.Second
)

// Run publishes until ctx ends; then what is left, unless that takes too long. One
// Run at a time.
func (o *Outbox) Run(ctx context.Context) {
	pause, failing := firstPause, false
	for ctx.Err() == nil {
		n, err := o.step(ctx)
		if err != nil {
			if !failing && ctx.Err() == nil {
				o.Log.WarnContext(ctx, "Events wait to be counted", "events", o.Name, "err", err)
			}
			failing = true
			o.wait(ctx, pause, nil)
			pause = min(2*pause, longPause)
			continue
		}
		if failing {
			o.Log.InfoContext(ctx, "Events are being counted again", "events", o.Name)
			pause, failing = firstPause, false
		}
		switch {
		case n == 0:
			o.wait(ctx, o.Look, o.Wake)
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

// wait ends when the time is up (0: never, where something can wake it), ctx ends,
// or there is a value.
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
		return 0, fmt.Errorf("reading what to count: %w", err)
	}
	if len(b.GetEvents()) == 0 {
		return 0, nil
	}
	if err := o.publish(ctx, b); err != nil {
		return 0, fmt.Errorf("publishing what to count: %w", err)
	}
	if err := o.queue.Published(ctx, b); err != nil {
		return 0, fmt.Errorf("noting what was published: %w", err)
	}
	return len(b.GetEvents()), nil
}

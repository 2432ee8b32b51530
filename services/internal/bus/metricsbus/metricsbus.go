// Package metricsbus defines how services report events to the metrics service: the subject
// and stream of slipway.metrics.v1.Batch (event.proto), its only consumer, and the Outbox
// that publishes events. Events are stored by the reporting service until the stream has
// accepted them.
package metricsbus

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus"
)

const (
	// Events is the subject of Batches, on EventStream.
	Events = "metrics.events"
	// EventStream is the name of the stream, which the metrics service creates.
	EventStream = "METRICS_EVENTS"
	// EventAckWait is the time after which a batch that a replica has not counted is
	// redelivered to another one.
	EventAckWait = 10 * time.Second
)

// Stream returns the stream of events that are not counted yet. When it is full, outboxes
// retain their events.
func Stream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: EventStream, Subjects: []string{Events}, Retention: jetstream.WorkQueuePolicy,
		MaxBytes: 64 << 20, Discard: jetstream.DiscardNew, Description: "Events that are not counted yet",
	}
}

// Consumer returns the consumer that all replicas of the metrics service share. It delivers
// one message at a time to all replicas together, because the events of a source must be
// counted in order.
func Consumer() bus.Consumer {
	return bus.Consumer{
		Stream: EventStream, Prefetch: 1,
		Config: jetstream.ConsumerConfig{
			Durable: "metrics", AckPolicy: jetstream.AckExplicitPolicy, AckWait: EventAckWait, MaxAckPending: 1,
		},
	}
}

// Package metricsbus declares how other rooms tell the metrics room what to count:
// the subject and stream of slipway.metrics.v1.Batch (event.proto), the one
// consumer, and the Outbox through which everybody publishes. It keeps nothing:
// events stay with the room where they happened until the stream has them.
package metricsbus

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus"
)

const (
	// Events carries a Batch. On EventStream.
	Events = "metrics.events"
	// EventStream is the name of the stream, which the metrics room makes.
	EventStream = "METRICS_EVENTS"
	// EventAckWait is how long a replica may take to count a batch before another
	// replica gets it.
	EventAckWait = 10 * time.Second
)

// Stream holds what is not counted yet. When it is full, outboxes keep what they
// have.
func Stream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: EventStream, Subjects: []string{Events}, Retention: jetstream.WorkQueuePolicy,
		MaxBytes: 64 << 20, Discard: jetstream.DiscardNew, Description: "What is not counted yet",
	}
}

// Consumer is the one that all replicas of the metrics room share. It gives one
// message at a time, over all replicas: the events of a source have to be counted
// in their order.
func Consumer() bus.Consumer {
	return bus.Consumer{
		Stream: EventStream, AtOnce: 1,
		Config: jetstream.ConsumerConfig{
			Durable: "metrics", AckPolicy: jetstream.AckExplicitPolicy, AckWait: EventAckWait, MaxAckPending: 1,
		},
	}
}

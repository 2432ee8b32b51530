// Package eventbus defines the stream of events of builds and containers
// (slipway.events.v1.Event): its subjects, its consumers, and how events are published. The
// build service publishes events of builds. The container service consumes those of ended
// builds, and publishes an event for each container that waited for the build. The platform
// consumes all, and sends them to webhooks.
package eventbus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/limits"
)

const (
	// Builds is the subject of events of builds, and Containers that of events of containers.
	Builds     = "events.build"
	Containers = "events.container"
	// StreamName is the name of the stream, which each service that uses it creates.
	StreamName = "EVENTS"
	// AckWait is the time after which an event that a replica has not handled is redelivered
	// to another one.
	AckWait = 30 * time.Second
)

// Types of events.
const (
	BuildStarted   = "build.started"
	BuildSucceeded = "build.succeeded"
	BuildFailed    = "build.failed"
	// BuildVerified and BuildVerificationFailed are published after another worker has made the image
	// of a build again: with the same bytes, or with other ones.
	BuildVerified           = "build.verified"
	BuildVerificationFailed = "build.verification_failed"

	MirrorStarted   = "mirror.started"
	MirrorSucceeded = "mirror.succeeded"
	MirrorFailed    = "mirror.failed"
	ContainerReady  = "container.ready"
	ContainerFailed = "container.failed"
	// ContainerPatched is about the new request.
	ContainerPatched = "container.patched"
	// ContainerScanned is published when more or less than before was found in an image, or something that
	// its request does not tolerate.
	ContainerScanned = "container.scanned"
)

// Stream returns the stream of events that a consumer has not handled yet. Without consumers
// it stores nothing. When it is full, publishers retain their events.
func Stream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamName, Subjects: []string{Builds, Containers}, Retention: jetstream.InterestPolicy,
		MaxAge: 7 * 24 * time.Hour, MaxBytes: limits.EventStream, MaxMsgSize: limits.Event, Discard: jetstream.DiscardNew,
		Description: "Events that are not sent to webhooks yet",
	}
}

// ContainerConsumer returns the consumer of the events of builds that all replicas of the
// container service share.
func ContainerConsumer() bus.Consumer { return consumer("container", Builds, 20_000) }

// SignatureConsumer returns the consumer of the events of builds that all replicas of the
// container service share to push the signatures of images.
func SignatureConsumer() bus.Consumer { return consumer("signatures", Builds, 20_000) }

// WebhookConsumer returns the consumer that all replicas of the platform share. It delivers one
// event at a time to all of them together, because events of one subject must be stored in order.
func WebhookConsumer() bus.Consumer { return consumer("webhooks", "events.>", 1) }

// consumer returns a consumer that delivers up to pending events before they are acknowledged.
func consumer(name, subject string, pending int) bus.Consumer {
	return bus.Consumer{
		Stream: StreamName, Prefetch: min(16, pending),
		Config: jetstream.ConsumerConfig{
			Durable: name, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait, MaxAckPending: pending,
		},
	}
}

// Publish publishes an event. The stream ignores an event that it received within the last two
// minutes.
func Publish(ctx context.Context, js jetstream.Publisher, subject string, e *eventsv1.Event) error {
	raw, err := proto.Marshal(e)
	if err != nil {
		return err
	}
	return bus.Publish(ctx, js, subject, raw, jetstream.WithMsgID(e.GetId()))
}

// Subject returns the id of the build or the request that an event is about.
func Subject(e *eventsv1.Event) string {
	if b := e.GetBuild(); b != nil {
		return b.GetBuildId()
	}
	return e.GetContainer().GetRequestId()
}

// Package buildbus defines the NATS subjects, streams and consumers through which the build
// service and its workers communicate. Each carries a message of slipway.build.v1
// (job.proto). The build service creates the streams, and workers create the consumers of
// jobs. The package does not connect to NATS.
package buildbus

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/limits"
)

// Subjects that do not belong to one build.
const (
	// Workers carries a Presence of each worker every few seconds, over core NATS.
	Workers = "build.workers"
	// RollCall requests each worker to publish its Presence immediately. The message is
	// empty and sent over core NATS.
	RollCall = "build.rollcall"
	// Results carries a Result for each finished delivery, on ResultStream.
	Results = "build.events"
	// GivenUp carries NATS's advisory about a job that was delivered the maximum number
	// of times and never acknowledged, over core NATS.
	GivenUp = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + JobStream + ".>"

	jobs    = "build.jobs."
	logs    = "build.logs."
	done    = "build.done."
	cancel  = "build.cancel."
	claims  = "$KV." + ClaimBucket + "."
	uploads = "$KV." + UploadBucket + "."
)

// Names of the streams.
const (
	JobStream    = "BUILD_JOBS"
	ResultStream = "BUILD_EVENTS"
	LogStream    = "BUILD_LOGS"
	// ClaimBucket is the JetStream key-value bucket in which workers claim the layers that
	// they build and record the results. Its stream is configured by Claims.
	ClaimBucket = "BUILD_LAYERS"
	// UploadBucket is the JetStream key-value bucket with the states of unfinished uploads of
	// mirrors.
	UploadBucket = "MIRROR_UPLOADS"
)

// Job returns the subject of a build's Job, on JobStream.
func Job(engine, architecture, id string) string {
	return jobs + engine + "." + architecture + "." + id
}

// Claim returns the subject of a layer's key in ClaimBucket, on the stream of Claims.
func Claim(layer string) string { return claims + layer }

// Upload returns the subject of an upload's key in UploadBucket.
func Upload(key string) string { return uploads + key }

// Log returns the subject of a build's LogChunks, on LogStream.
func Log(id string) string { return logs + id }

// Done returns the subject on which the build service announces that a build has ended. The
// message is empty and sent over core NATS.
func Done(id string) string { return done + id }

// AnyDone matches the Done subjects of all builds.
const AnyDone = done + "*"

// DoneID returns the build ID in a Done subject.
func DoneID(subject string) string { return strings.TrimPrefix(subject, done) }

// Cancel returns the subject on which the build service tells a worker to stop a build. The
// message is the hex SHA-256 of the delivery's ticket, sent over core NATS.
func Cancel(id string) string { return cancel + id }

// Streams returns the streams that must exist before a job is queued. A log is moved to the
// database when its build ends, so that only logs of lost builds remain in the stream until
// they expire.
func Streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: JobStream, Subjects: []string{jobs + ">"}, Retention: jetstream.WorkQueuePolicy,
			Duplicates: 10 * time.Minute, Description: "Builds that wait for a worker or are running",
		},
		{
			Name: ResultStream, Subjects: []string{Results}, MaxAge: 7 * 24 * time.Hour,
			Duplicates: time.Hour, Description: "Results of builds",
		},
		{
			Name: LogStream, Subjects: []string{logs + ">"}, MaxAge: 7 * 24 * time.Hour,
			Duplicates: 10 * time.Minute, Description: "Logs of running builds",
		},
		{
			Name: "KV_" + UploadBucket, Subjects: []string{uploads + ">"}, Description: "States of unfinished uploads of mirrors",
			MaxMsgsPerSubject: 1, MaxBytes: limits.UploadRecords, MaxMsgSize: limits.UploadRecord, MaxAge: limits.UploadAge,
			Discard: jetstream.DiscardOld, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		},
	}
}

// Claims returns the stream of ClaimBucket, with a key for each layer and repository
// (conda.LayerKey.At). The value is empty while a worker builds the layer. Afterwards it is the
// layer's record, for the given age. If the stream is full, the oldest keys are discarded,
// which does not affect running builds.
func Claims(age time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + ClaimBucket, Subjects: []string{claims + ">"}, Description: "Package layers that workers build or have built",
		MaxMsgsPerSubject: 1, MaxBytes: limits.LayerRecords, MaxMsgSize: limits.LayerRecord + 4<<10, MaxAge: age,
		Discard: jetstream.DiscardOld, AllowRollup: true, DenyDelete: true, AllowDirect: true,
	}
}

const (
	// JobDeliveries is the maximum number of attempts of a job, and MirrorDeliveries that of a
	// mirror, which continues where the last attempt ended.
	JobDeliveries, MirrorDeliveries = 3, 10
	// JobAckWait is the time without progress from a worker after which its job is
	// redelivered to another one.
	JobAckWait = 30 * time.Second
)

// JobConsumer returns the durable consumer that all workers with an engine and architecture
// share.
func JobConsumer(engine, architecture string) jetstream.ConsumerConfig {
	deliveries := JobDeliveries
	if engine == "mirror" {
		deliveries = MirrorDeliveries
	}
	return jetstream.ConsumerConfig{
		Durable:       engine + "-" + architecture,
		FilterSubject: Job(engine, architecture, ">"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       JobAckWait,
		MaxDeliver:    deliveries,
		MaxAckPending: 10_000,
	}
}

// ResultConsumer returns the consumer that all replicas of the build service share.
func ResultConsumer() bus.Consumer {
	return bus.Consumer{
		Stream: ResultStream, Prefetch: 8,
		Config: jetstream.ConsumerConfig{
			Durable: "build", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: 64,
		},
	}
}

// LogConsumer returns a consumer that reads the log of a build from its beginning.
func LogConsumer(id string) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{Log(id)}, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute,
	}
}

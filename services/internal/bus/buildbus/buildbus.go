// Package buildbus declares what the build room and its workers say to each other
// over NATS: subjects, streams and consumers, each with the message of
// slipway.build.v1 that it carries (job.proto). The build room makes the streams;
// workers make the consumers of jobs. It connects to nothing.
package buildbus

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/limits"
)

// Subjects that are no build's own.
const (
	// Workers carries a Presence from every worker, every few seconds. Core NATS.
	Workers = "build.workers"
	// Results carries a Result for every delivery that ended. On ResultStream.
	Results = "build.events"
	// GivenUp carries NATS's advisory on a job that was delivered JobDeliveries times
	// and never acknowledged. Core NATS.
	GivenUp = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + JobStream + ".>"

	jobs   = "build.jobs."
	logs   = "build.logs."
	done   = "build.done."
	cancel = "build.cancel."
	claims = "$KV." + ClaimBucket + "."
)

// Names of the streams.
const (
	JobStream    = "BUILD_JOBS"
	ResultStream = "BUILD_EVENTS"
	LogStream    = "BUILD_LOGS"
	// ClaimBucket is where workers say which layers they make, and what became of them: a
	// key-value bucket of JetStream, in the stream of Claims.
	ClaimBucket = "BUILD_LAYERS"
)

// Job is the subject of a build's Job, on JobStream.
func Job(engine, architecture, id string) string {
	return jobs + engine + "." + architecture + "." + id
}

// Claim is the subject of a layer's key in ClaimBucket, on the stream of Claims.
func Claim(layer string) string { return claims + layer }

// Log is the subject of a build's LogChunks, on LogStream.
func Log(id string) string { return logs + id }

// Done is where the build room says that a build has ended; the message is empty.
// Core NATS.
func Done(id string) string { return done + id }

// AnyDone matches Done of every build.
const AnyDone = done + "*"

// DoneID is the id of the build that a Done subject is about.
func DoneID(subject string) string { return strings.TrimPrefix(subject, done) }

// Cancel is where the build room tells the worker of a build to stop. The message
// is the hex SHA-256 of the delivery's ticket. Core NATS.
func Cancel(id string) string { return cancel + id }

// Streams are what has to be there before anything is queued. A log is moved to SQL
// when its build ends; what stays longer belongs to a lost build.
func Streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: JobStream, Subjects: []string{jobs + ">"}, Retention: jetstream.WorkQueuePolicy,
			Duplicates: 10 * time.Minute, Description: "Builds that wait for a worker, or are with one",
		},
		{
			Name: ResultStream, Subjects: []string{Results}, MaxAge: 7 * 24 * time.Hour,
			Duplicates: time.Hour, Description: "How builds ended",
		},
		{
			Name: LogStream, Subjects: []string{logs + ">"}, MaxAge: 7 * 24 * time.Hour,
			Duplicates: 10 * time.Minute, Description: "Logs of builds that run",
		},
	}
}

// Claims is the stream of ClaimBucket, with a key for each layer and repository
// (conda.LayerKey.At): no value while a worker makes the layer, then what is to be known of
// it, for age. The oldest makes room, and builds go on without it.
func Claims(age time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + ClaimBucket, Subjects: []string{claims + ">"}, Description: "Layers of packages that workers have made, or make",
		MaxMsgsPerSubject: 1, MaxBytes: limits.LayerRecords, MaxMsgSize: limits.LayerRecord + 4<<10, MaxAge: age,
		Discard: jetstream.DiscardOld, AllowRollup: true, DenyDelete: true, AllowDirect: true,
	}
}

const (
	// JobDeliveries is how often a job is tried.
	JobDeliveries = 3
	// JobAckWait is how long a worker may be silent about a job before another one
	// gets it.
	JobAckWait = 30 * time.Second
)

// JobConsumer is the durable consumer that all workers with an engine for an
// architecture share.
func JobConsumer(engine, architecture string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       engine + "-" + architecture,
		FilterSubject: Job(engine, architecture, ">"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       JobAckWait,
		MaxDeliver:    JobDeliveries,
		MaxAckPending: 10_000,
	}
}

// ResultConsumer is the consumer that all replicas of the build room share.
func ResultConsumer() bus.Consumer {
	return bus.Consumer{
		Stream: ResultStream, AtOnce: 8,
		Config: jetstream.ConsumerConfig{
			Durable: "build", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: 64,
		},
	}
}

// LogConsumer reads the log of a build from its beginning.
func LogConsumer(id string) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{Log(id)}, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute,
	}
}

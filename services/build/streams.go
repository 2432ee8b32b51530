package build

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What is said on the bus. Workers know the same subjects (see job.proto).
const (
	subjectWorkers = "build.workers"
	subjectDone    = "build.done."
	subjectCancel  = "build.cancel."
	subjectEvents  = "build.events"
	subjectLogs    = "build.logs."
	subjectJobs    = "build.jobs."
	// subjectGivenUp is where NATS says that a job was delivered often enough.
	subjectGivenUp = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + streamJobs + ".>"

	streamJobs   = "BUILD_JOBS"
	streamEvents = "BUILD_EVENTS"
	streamLogs   = "BUILD_LOGS"
)

// streams are what has to be there before anything is queued. A log is taken
// over into SQL when its build ends; what stays longer is a lost build's.
func streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: streamJobs, Subjects: []string{subjectJobs + ">"}, Retention: jetstream.WorkQueuePolicy,
			Duplicates: 10 * time.Minute, Description: "Builds that wait for a worker, or are with one",
		},
		{
			Name: streamEvents, Subjects: []string{subjectEvents}, MaxAge: 7 * 24 * time.Hour,
			Duplicates: time.Hour, Description: "How builds ended",
		},
		{
			Name: streamLogs, Subjects: []string{subjectLogs + ">"}, MaxAge: 7 * 24 * time.Hour,
			Duplicates: 10 * time.Minute, Description: "Logs of builds that run",
		},
	}
}

// jobSubject is where a build's job is.
func jobSubject(engine, architecture, id string) string {
	return subjectJobs + engine + "." + architecture + "." + id
}

// purge takes everything on a subject from a stream.
func (s *Service) purge(ctx context.Context, stream, subject string) error {
	str, err := s.bus.Stream(ctx, stream)
	if err != nil {
		return err
	}
	return str.Purge(ctx, jetstream.WithPurgeSubject(subject))
}

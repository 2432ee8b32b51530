// Package queue dispatches builds to workers: it chooses the next builds, publishes their
// jobs on the bus, and removes them. A job only names a build; the store holds the builds
// and their state.
package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/logs"
	"slipway.dev/services/build/store"
	"slipway.dev/services/build/workers"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/ratelimit"
)

// Queue holds the jobs of builds. It has no state of its own and is safe for concurrent
// use.
type Queue struct {
	Bus     jetstream.JetStream
	Store   store.Store
	Workers *workers.Watch
	Logs    *logs.Logs
	// Now returns the current time.
	Now func() time.Time
	// RunningUser and RunningAnonymous limit how many builds of one kind each owner may
	// have with the workers at a time; 0 means no limit besides fair scheduling.
	RunningUser, RunningAnonymous int
	// RunningOf returns the limits that administrators have set for the user, the workspace and the
	// organisation of a build; nil means that there are none.
	RunningOf func(store.Record) []ratelimit.RunningLimit
	// ReserveForUsers prevents anonymous clients from occupying all slots together.
	ReserveForUsers bool
}

// Next returns the next builds, as many as the workers can take. Errors are those of the
// store.
func (q *Queue) Next(ctx context.Context, waiting []store.Record) ([]store.Record, error) {
	out, err := q.Store.Published(ctx)
	if err != nil {
		return nil, err
	}
	return q.turns(waiting, out), nil
}

// Publish publishes the jobs of builds. If two replicas publish the same job, the bus drops
// one of them by its message id.
func (q *Queue) Publish(ctx context.Context, builds []store.Record) error {
	if err := bus.CreateStreams(ctx, q.Bus, buildbus.Streams()...); err != nil {
		return err
	}
	for _, r := range builds {
		if err := q.publish(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// publish publishes a job, and records that after the bus has confirmed it.
func (q *Queue) publish(ctx context.Context, r store.Record) error {
	raw, err := proto.Marshal(&buildv1.Job{BuildId: r.ID})
	if err != nil {
		return err
	}
	if text := r.Request.GetPreface(); text != "" && r.Publications == 0 {
		if err := q.Logs.Begin(ctx, r.ID, text); err != nil {
			return err
		}
	}
	// The trace is that of the request, which is stored with the build.
	err = bus.Publish(bus.WithTraceParent(ctx, r.TraceParent), q.Bus, subject(r), raw,
		jetstream.WithMsgID(r.ID+"."+strconv.FormatInt(r.Publications, 10)))
	if err != nil {
		return fmt.Errorf("publishing %s: %w", r.ID, err)
	}
	return q.Store.MarkPublished(ctx, r, q.Now())
}

// subject returns the subject of a build's job.
func subject(r store.Record) string {
	c := r.Kind()
	return buildbus.Job(c.Engine, c.Architecture, r.ID)
}

// Remove deletes a build's job from the bus. The message is deleted and the subject not
// purged: on a purge, NATS 2.9 forgets all other unacknowledged jobs of the consumer, and
// does not redeliver them if their worker dies.
func (q *Queue) Remove(ctx context.Context, r store.Record) error {
	stream, err := q.Bus.Stream(ctx, buildbus.JobStream)
	if err != nil {
		return err
	}
	job, err := stream.GetLastMsgForSubject(ctx, subject(r))
	if err == nil {
		err = stream.DeleteMsg(ctx, job.Sequence)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return nil // its worker has acknowledged it
	}
	return err
}

// IsLost reports whether a build's job has disappeared from the bus without a worker's
// report.
func (q *Queue) IsLost(ctx context.Context, r store.Record) (bool, error) {
	stream, err := q.Bus.Stream(ctx, buildbus.JobStream)
	if err == nil {
		_, err = stream.GetLastMsgForSubject(ctx, subject(r))
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, err
	}
	// The worker acknowledges a job after its report, so there may be an unread report.
	waits, err := q.resultsWait(ctx)
	return !waits && err == nil, err
}

// resultsWait reports whether there are unread reports.
func (q *Queue) resultsWait(ctx context.Context) (bool, error) {
	results := buildbus.ResultConsumer()
	c, err := q.Bus.Consumer(ctx, results.Stream, results.Config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.NumPending > 0 || info.NumAckPending > 0, nil
}

// BuildOf returns the id of the build whose job has a sequence number on the bus; "" if the
// job was deleted.
func (q *Queue) BuildOf(ctx context.Context, sequence uint64) (string, error) {
	stream, err := q.Bus.Stream(ctx, buildbus.JobStream)
	if err != nil {
		return "", err
	}
	raw, err := stream.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	job := &buildv1.Job{}
	err = proto.Unmarshal(raw.Data, job)
	return job.GetBuildId(), err
}

// Backlog returns how many builds wait and run, by kind. It includes the kinds that live
// workers can build, even without builds.
func (q *Queue) Backlog(ctx context.Context) (map[engine.Kind]store.Unfinished, error) {
	all, err := q.Store.Unfinished(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range q.Workers.Kinds() {
		if _, busy := all[c]; !busy {
			all[c] = store.Unfinished{}
		}
	}
	return all, nil
}

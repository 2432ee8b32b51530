// Package queue gives builds to workers: it picks whose turn it is, puts their jobs on the
// bus, and takes them from there. A job names a build and says nothing else of it: which
// builds there are, and how they stand, is in the store.
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
)

// Queue is the jobs of builds. It holds nothing of its own; safe for concurrent use.
type Queue struct {
	Bus     jetstream.JetStream
	Store   store.Store
	Workers *workers.Watch
	Logs    *logs.Logs
	// Now is the clock.
	Now func() time.Time
	// RunningUser and RunningAnonymous are how many builds of one kind one owner may have
	// with the workers at a time; 0 is no limit beside the turns.
	RunningUser, RunningAnonymous int
}

// Next picks from builds that wait those whose turn it is, as many as the workers can take.
// An error is one of the store's.
func (q *Queue) Next(ctx context.Context, waiting []store.Record) ([]store.Record, error) {
	out, err := q.Store.Published(ctx)
	if err != nil {
		return nil, err
	}
	return turns(waiting, out, q.Workers.Slots, q.share), nil
}

// Publish puts the jobs of builds on the bus. Two replicas may publish the same job; the
// message id makes it one.
func (q *Queue) Publish(ctx context.Context, builds []store.Record) error {
	if err := bus.MakeStreams(ctx, q.Bus, buildbus.Streams()...); err != nil {
		return err
	}
	for _, r := range builds {
		if err := q.publish(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// publish puts a job on the bus, and notes it only when the bus has it.
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
	// It waited in SQL: the trace it belongs to is its request's.
	err = bus.Publish(bus.WithTraceParent(ctx, r.TraceParent), q.Bus, subject(r), raw,
		jetstream.WithMsgID(r.ID+"."+strconv.FormatInt(r.Publications, 10)))
	if err != nil {
		return fmt.Errorf("publishing %s: %w", r.ID, err)
	}
	return q.Store.MarkPublished(ctx, r, q.Now())
}

// subject is where a build's job is.
func subject(r store.Record) string {
	c := r.Kind()
	return buildbus.Job(c.Engine, c.Architecture, r.ID)
}

// Remove takes a build's job from the bus. It is deleted, not purged: when a subject
// is purged, NATS 2.9 forgets every other job that a worker has in hand, and gives it to
// nobody once that worker is lost.
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

// IsLost says whether a build's job is gone from the bus, and nobody has reported on it.
func (q *Queue) IsLost(ctx context.Context, r store.Record) (bool, error) {
	stream, err := q.Bus.Stream(ctx, buildbus.JobStream)
	if err == nil {
		_, err = stream.GetLastMsgForSubject(ctx, subject(r))
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, err
	}
	// The worker acknowledges a job after it has reported: the report may just
	// not have been read yet.
	waits, err := q.resultsWait(ctx)
	return !waits && err == nil, err
}

// resultsWait says whether there are reports that nobody has taken.
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

// BuildOf is the id of the build whose job has a place on the bus; "" where there is none.
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

// Backlog is how many builds wait and run, by what has to make them; what workers could
// make is there, too, when nothing of it is to be made.
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

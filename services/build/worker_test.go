package build_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/testkit"
)

// worker communicates with the service over the bus, as a worker does.
type worker struct {
	p    *deployment
	bus  *nats.Conn
	js   jetstream.JetStream
	jobs jetstream.Consumer
}

func newWorker(t *testing.T, p *deployment, slots int32) *worker {
	t.Helper()
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{p: p, bus: p.bus, js: js}
	w.appear(t, slots)
	w.setUp(t)
	return w
}

// appear publishes a presence with additional capabilities, and waits until every replica
// has received it.
func (w *worker) appear(t *testing.T, slots int32, more ...*buildv1.Capability) {
	t.Helper()
	w.p.announce(t, &buildv1.Presence{
		Worker: "test", Slots: slots, Capabilities: append([]*buildv1.Capability{
			{Engine: "buildkit", Architecture: "amd64"}, {Engine: "buildkit", Architecture: "arm64"},
		}, more...),
	})
	w.p.listens(t)
}

// setUp waits for the stream of jobs.
func (w *worker) setUp(t *testing.T) {
	t.Helper()
	poll(t, "the stream of jobs", func(ctx context.Context) error {
		// The dispatcher wakes and creates the stream, as after a worker's presence.
		if err := w.bus.Publish(buildbus.Done("x"), nil); err != nil {
			return err
		}
		var err error
		w.jobs, err = w.js.CreateOrUpdateConsumer(ctx, buildbus.JobStream, jetstream.ConsumerConfig{
			Durable: "test", FilterSubject: buildbus.Job("*", "*", "*"), AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: buildbus.JobDeliveries,
		})
		return err
	})
}

// poll repeats a call until it succeeds.
func poll(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	testkit.Until(t, what, func() error { return try(ctx) })
}

// takenJob is a job that the worker has taken.
type takenJob struct {
	w        *worker
	id       string
	delivery int32
	job      *buildv1.TakeJobResponse
}

func (w *worker) take(t *testing.T, r replica, delivery int32) takenJob {
	t.Helper()
	j := takenJob{w: w, delivery: delivery}
	poll(t, "a job", func(context.Context) error {
		m, err := w.jobs.Next(jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		job := &buildv1.Job{}
		if err := proto.Unmarshal(m.Data(), job); err != nil {
			return err
		}
		j.id = job.GetBuildId()
		return nil
	})
	j.tell(t, r)
	return j
}

// tell reports to the service that the job was taken.
func (j *takenJob) tell(t *testing.T, r replica) {
	t.Helper()
	var err error
	j.job, err = r.TakeJob(t.Context(), &buildv1.TakeJobRequest{BuildId: j.id, Delivery: j.delivery, Worker: "test"})
	if err != nil {
		t.Fatal(err)
	}
}

func (j takenJob) print(t *testing.T, n int, lines ...string) {
	t.Helper()
	chunk := &buildv1.LogChunk{Delivery: j.delivery}
	for _, l := range lines {
		chunk.Entries = append(chunk.Entries, &buildv1.LogEntry{Text: l})
	}
	j.publish(t, buildbus.Log(j.id), fmt.Sprintf("%s.%d.%d", j.id, j.delivery, n), chunk)
}

func (j takenJob) succeed(t *testing.T, digest string) {
	t.Helper()
	j.report(t, &buildv1.Result{Succeeded: true, Digest: digest})
}

func (j takenJob) report(t *testing.T, r *buildv1.Result) {
	t.Helper()
	r.BuildId, r.Delivery, r.Ticket = j.id, j.delivery, j.job.GetTicket()
	j.publish(t, buildbus.Results, fmt.Sprintf("%s.%d.done.%s", j.id, j.delivery, j.job.GetTicket()), r)
}

func (j takenJob) publish(t *testing.T, subject, id string, m proto.Message) {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.w.js.Publish(t.Context(), subject, raw, jetstream.WithMsgID(id)); err != nil {
		t.Fatal(err)
	}
}

// ended waits until every report has been handled.
func (j takenJob) ended(t *testing.T, r replica) {
	t.Helper()
	if _, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: j.id}); err != nil {
		t.Fatal(err)
	}
	poll(t, "results to be taken", func(ctx context.Context) error {
		c, err := j.w.js.Consumer(ctx, buildbus.ResultStream, buildbus.ResultConsumer().Config.Durable)
		if err != nil {
			return err
		}
		info, err := c.Info(ctx)
		if err == nil && (info.NumPending > 0 || info.NumAckPending > 0) {
			err = fmt.Errorf("%d wait", info.NumPending)
		}
		return err
	})
}

package builder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/buildlog"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/retry"
)

// report sends the rest of the log, then the result, then acknowledges the job. The order
// guarantees that a client which sees one of them also sees the previous ones.
func (w *Worker) report(ctx context.Context, msg jetstream.Msg, job jobs.Job, out *buildlog.Writer, result *buildv1.Result) {
	// A cancelled build is reported as well; only draining the worker interrupts this.
	ctx, cancel := w.untilDrained(ctx)
	defer cancel()
	lctx, lcancel := context.WithTimeout(ctx, w.timeouts.logs)
	out.End(lctx)
	lcancel()
	// The build may be queued again, and its deliveries are then counted from 1 again.
	id := fmt.Sprintf("%s.%d.done.%d", job.ID, job.Delivery, job.Sequence)
	if err := w.publish(ctx, buildbus.Results, id, result); err != nil {
		w.handBack(msg, job, err)
		return
	}
	w.ack(msg)
}

// untilDrained returns a context that outlives its parent. When the worker drains, the
// context ends after a few seconds.
func (w *Worker) untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errDrained) {
			retry.Sleep(out, busTimeout)
			cancel()
		}
	})
	return out, func() { stop(); cancel() }
}

// publish publishes a message on a stream, and retries until it succeeds or ctx ends. The
// id makes repetitions harmless.
func (w *Worker) publish(ctx context.Context, subject, id string, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	for said := false; ; said = true {
		err := withBusTimeout(ctx, func(ctx context.Context) error {
			return bus.Publish(ctx, w.js, subject, b, jetstream.WithMsgID(id))
		})
		if err == nil {
			return nil
		}
		if !said {
			w.Log.Warn("The bus did not take a message; trying again", "subject", subject, "err", err)
		}
		if w.NATS.IsClosed() || !retry.Sleep(ctx, w.timeouts.retry) {
			return fmt.Errorf("publishing on %s: %w", subject, err)
		}
	}
}

// ack acknowledges a job. A lost acknowledgement is harmless: the job is delivered again,
// and the build service reports that the build has ended.
func (w *Worker) ack(msg jetstream.Msg) {
	if err := withBusTimeout(context.Background(), msg.DoubleAck); err != nil {
		w.Log.Warn("A job could not be acknowledged", "subject", msg.Subject(), "err", err)
	}
}

// handBack asks the build service to queue the build again, so that this delivery does not
// count. That requires a ticket, so a worker that was stopped before it had one requests it
// first. If the build service cannot be reached, JetStream delivers the job to another
// worker, and the delivery counts.
func (w *Worker) handBack(msg jetstream.Msg, job jobs.Job, why error) {
	w.logger(job).Info("a job was handed back", "err", why)
	if job.Ticket == "" {
		err := withBusTimeout(context.Background(), func(ctx context.Context) error {
			r, err := w.Work.TakeJob(ctx, &buildv1.TakeJobRequest{BuildId: job.ID, Delivery: job.Delivery, Worker: w.Settings.Name})
			job.Ticket = r.GetTicket()
			return err
		})
		if errors.Is(err, fault.NotFound) {
			w.ack(msg)
			return
		}
	}
	id := fmt.Sprintf("%s.%d.back.%d", job.ID, job.Delivery, job.Sequence)
	err := errNoTicket
	if job.Ticket != "" {
		err = withBusTimeout(context.Background(), func(ctx context.Context) error {
			return w.publish(ctx, buildbus.Results, id, &buildv1.Result{BuildId: job.ID, Delivery: job.Delivery, Ticket: job.Ticket, HandedBack: true})
		})
	}
	if err == nil {
		w.ack(msg)
		return
	}
	w.logger(job).Warn("A job could not be handed back", "err", err)
	if err := msg.Nak(); err != nil {
		w.Log.Warn("A job could not be handed back; another worker gets it later", "subject", msg.Subject(), "err", err)
	}
	_ = w.NATS.FlushTimeout(busTimeout)
}

// errNoTicket is returned if the build service issued no ticket, so that the job cannot be
// returned to the queue.
var errNoTicket = errors.New("the build service issued no ticket")

// busTimeout is the timeout of one request on the bus.
const busTimeout = 5 * time.Second

// withBusTimeout calls f with a context for one request on the bus.
func withBusTimeout(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	return f(ctx)
}

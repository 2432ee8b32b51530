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

// report sends the rest of the log, then the result, then acknowledges the job,
// in this order: whoever sees a step sees those before it.
func (w *Worker) report(ctx context.Context, msg jetstream.Msg, job jobs.Job, out *buildlog.Writer, result *buildv1.Result) {
	// A cancelled build is reported all the same; only a drain cuts this short.
	ctx, cancel := w.untilDrained(ctx)
	defer cancel()
	lctx, lcancel := context.WithTimeout(ctx, w.timeouts.logs)
	out.End(lctx)
	lcancel()
	id := fmt.Sprintf("%s.%d.done", job.ID, job.Delivery)
	if result.GetNeedsSteps() { // the build may go on, and deliveries are counted from 1 again
		id = fmt.Sprintf("%s.%d.steps.%d", job.ID, job.Delivery, job.Sequence)
	}
	if err := w.publish(ctx, buildbus.Results, id, result); err != nil {
		w.handBack(msg, job, err)
		return
	}
	w.ack(msg)
}

// untilDrained is a context that outlives its parent, but for a drain: then it
// has a few seconds left.
func (w *Worker) untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errDrained) {
			retry.Sleep(out, shortly)
			cancel()
		}
	})
	return out, func() { stop(); cancel() }
}

// publish puts a message on a stream, again and again until the stream has it or
// ctx ends. The id makes a repeat harmless.
func (w *Worker) publish(ctx context.Context, subject, id string, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	for said := false; ; said = true {
		err := briefly(ctx, func(ctx context.Context) error {
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

// ack ends the job. An acknowledgement that gets lost is harmless: the job comes
// again, and the build room says that there is nothing to do.
func (w *Worker) ack(msg jetstream.Msg) {
	if err := briefly(context.Background(), msg.DoubleAck); err != nil {
		w.Log.Warn("A job could not be acknowledged", "subject", msg.Subject(), "err", err)
	}
}

// handBack has the build room queue the build again: what was done so far counts
// as no delivery. Only who has a ticket may say so, so a worker that was stopped
// before it had one asks for it. Where that cannot be said, JetStream gives the job
// to another worker at once, and counts.
func (w *Worker) handBack(msg jetstream.Msg, job jobs.Job, why error) {
	w.logger(job).Info("a job was handed back", "err", why)
	if job.Ticket == "" {
		err := briefly(context.Background(), func(ctx context.Context) error {
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
		err = briefly(context.Background(), func(ctx context.Context) error {
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
	_ = w.NATS.FlushTimeout(shortly)
}

// errNoTicket is why a job cannot be handed back in words.
var errNoTicket = errors.New("the build room gave no ticket")

// shortly is how long one word with the bus may take.
const shortly = 5 * time.Second

// briefly gives f a context for one word with the bus.
func briefly(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, shortly)
	defer cancel()
	return f(ctx)
}

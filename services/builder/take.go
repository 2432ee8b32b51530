package builder

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/retry"
)

// triesBeforeWarning is the number of attempts to reach the bus that may fail before this
// is logged.
const triesBeforeWarning = 6

// take runs the jobs of one queue until ctx ends, one in each free slot. The jobs use the
// context work, which outlives ctx.
func (w *Worker) take(ctx, work context.Context, q queue) {
	defer w.idle.serve(q)()
	var c jetstream.Consumer
	tries := 0
	for ctx.Err() == nil {
		var err error
		if c == nil {
			if c, err = w.consumer(ctx, q); err != nil {
				// When all roles start together, the streams are created a moment later.
				if tries++; tries == triesBeforeWarning && ctx.Err() == nil {
					w.Log.Info("Builder waits for the bus", "consumer", q.consumer().Durable, "err", err)
				}
				retry.Sleep(ctx, w.timeouts.retry)
				continue
			}
			tries = 0
			w.Log.Info("Builder takes jobs", "consumer", q.consumer().Durable)
		}
		if err = w.next(ctx, work, q, c); err != nil {
			c = nil // the consumer may have been deleted with its stream
			retry.Sleep(ctx, w.timeouts.retry)
		}
	}
}

// consumer returns the queue's consumer, which all workers share, and creates it if needed.
func (w *Worker) consumer(ctx context.Context, q queue) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	config := q.consumer()
	config.AckWait = w.timeouts.ackWait
	return w.js.CreateOrUpdateConsumer(ctx, buildbus.JobStream, config)
}

// next waits for a free slot and for a job, and starts the job.
func (w *Worker) next(ctx, work context.Context, q queue, c jetstream.Consumer) error {
	slots := w.slots[q.engine]
	select {
	case <-ctx.Done():
		return nil
	case <-slots:
	}
	msg, err := w.fetch(ctx, q, c)
	if msg == nil {
		slots <- struct{}{}
		return err
	}
	if ctx.Err() != nil { // the job arrived while the worker stops
		slots <- struct{}{}
		if job, ok := w.readJob(msg); ok {
			w.handBack(msg, job, errDrained)
		}
		return nil
	}
	ended := w.idle.work(q)
	w.running.Go(func() {
		defer func() { ended(); slots <- struct{}{} }()
		w.deliver(work, q, msg)
	})
	return nil
}

// fetch returns one job, or nil if none arrives within a short time.
func (w *Worker) fetch(ctx context.Context, q queue, c jetstream.Consumer) (jetstream.Msg, error) {
	// Takers that share slots must not hold one for long.
	timeout := 5 * time.Second
	if w.shares(q) {
		timeout = 500 * time.Millisecond
	}
	fctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	msg, err := c.Next(jetstream.FetchContext(fctx))
	switch {
	case err == nil:
		return msg, nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, jetstream.ErrNoMessages), errors.Is(err, jetstream.ErrMaxBytesExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, nil
	default:
		w.Log.Debug("Fetching a job", "err", err)
		return nil, err
	}
}

// shares reports whether jobs of another queue use the same slots.
func (w *Worker) shares(q queue) bool {
	for other := range w.capabilities() {
		if other != q && other.engine == q.engine {
			return true
		}
	}
	return false
}

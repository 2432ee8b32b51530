package builder

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/retry"
)

// timeouts are the worker's timeouts and intervals.
type timeouts struct {
	ackWait   time.Duration // JetStream delivers a job again after this time without a heartbeat
	heartbeat time.Duration // how often a running job is reported to JetStream
	presence  time.Duration // how often the worker announces itself to the build service
	poll      time.Duration // how often engines are polled
	retry     time.Duration // pause before a retry
	logs      time.Duration // timeout for sending the end of a log after its build
}

func defaultTimeouts() timeouts {
	return timeouts{
		ackWait: buildbus.JobAckWait, heartbeat: 10 * time.Second, presence: 3 * time.Second,
		poll: 500 * time.Millisecond, retry: 500 * time.Millisecond, logs: time.Minute,
	}
}

// Worker takes jobs from the bus and runs them.
type Worker struct {
	Deps
	js       jetstream.JetStream
	metrics  *metrics
	idle     *idle
	timeouts timeouts
	// after is time.After; tests replace it to end the drain timeout.
	after   func(time.Duration) <-chan time.Time
	slots   map[string]chan struct{} // one token per job that may run, by engine
	running sync.WaitGroup
}

// New creates a worker. It registers metrics and does nothing else until Run.
func New(d Deps) (*Worker, error) {
	js, err := jetstream.New(d.NATS)
	if err != nil {
		return nil, err
	}
	if d.Settings.Name == "" {
		d.Settings.Name, _ = os.Hostname()
	}
	d.Settings.Concurrency = max(1, d.Settings.Concurrency)
	w := &Worker{
		Deps: d, js: js, metrics: newMetrics(d.Metrics), timeouts: defaultTimeouts(), after: time.After, slots: map[string]chan struct{}{},
		idle: newIdle(d.Settings.Concurrency, d.Now),
	}
	d.Metrics.MustRegister(w.idle)
	for _, e := range d.Engines {
		slots := make(chan struct{}, d.Settings.Concurrency)
		for range d.Settings.Concurrency {
			slots <- struct{}{}
		}
		w.slots[e.Name()] = slots
	}
	return w, nil
}

// Run works until ctx ends. Then it takes no more jobs, lets running jobs continue for
// Settings.DrainTimeout, returns the remaining ones to the queue, and returns. It waits for
// a bus or streams that do not exist yet. The returned error is an engine's.
func (w *Worker) Run(ctx context.Context) error {
	// Jobs outlive ctx by the drain timeout, and engines outlive the jobs.
	ready, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var engines errgroup.Group
	for _, e := range w.Engines {
		engines.Go(func() error { return e.Run(ready) })
	}
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var takers sync.WaitGroup
	takers.Go(func() { w.manageTakers(ctx, work) })
	takers.Go(func() { w.rebuilds(ctx) })
	<-ctx.Done()
	w.Log.Info("Builder stops; running builds may end", "running", w.metrics.count())
	done := make(chan struct{})
	go func() { takers.Wait(); w.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-w.after(w.Settings.DrainTimeout):
		cut(errDrained)
		<-done
	}
	release()
	return engines.Wait()
}

// manageTakers runs a taker for each queue that the engines can serve, and announces every change
// to the build service.
func (w *Worker) manageTakers(ctx, work context.Context) {
	t := takers{stop: map[queue]context.CancelFunc{}}
	defer t.all.Wait()
	var announced string
	var announcedAt time.Time
	var full error
	calls := make(chan *nats.Msg, 1)
	if sub, err := w.NATS.ChanSubscribe(buildbus.RollCall, calls); err != nil {
		w.Log.Warn("The worker does not report when a build service starts, but every few seconds", "err", err)
	} else {
		defer func() { _ = sub.Unsubscribe() }()
	}
	for more := true; more; more = retry.Sleep(ctx, w.timeouts.poll) {
		select {
		case <-calls:
			announced = ""
		default:
		}
		capabilities := w.capabilities()
		if full = w.diskFull(full); full != nil {
			capabilities = nil
		}
		t.match(capabilities, func(q queue) {
			qctx, stop := context.WithCancel(ctx)
			t.stop[q] = stop
			t.all.Go(func() { w.take(qctx, work, q) })
		})
		p := w.presence(capabilities, full)
		if now := fingerprint(p); now != announced || w.Now().Sub(announcedAt) >= w.timeouts.presence {
			announced, announcedAt = now, w.Now()
			w.announce(p)
		}
	}
	t.match(nil, nil)
	w.announce(w.finalPresence())
}

// takers take jobs, one for each queue, until they are stopped.
type takers struct {
	stop map[queue]context.CancelFunc
	all  sync.WaitGroup
}

// match starts missing takers, and stops those whose queue no engine can serve.
func (t *takers) match(capabilities map[queue]Engine, start func(queue)) {
	for q := range capabilities {
		if t.stop[q] == nil {
			start(q)
		}
	}
	for q, stop := range t.stop {
		if capabilities[q] == nil {
			stop()
			delete(t.stop, q)
		}
	}
}

// A queue holds the jobs of one engine and architecture, and has one consumer.
type queue struct{ engine, arch string }

func (q queue) consumer() jetstream.ConsumerConfig { return buildbus.JobConsumer(q.engine, q.arch) }

// logger returns the worker's log with the attributes of a job.
func (w *Worker) logger(j jobs.Job) *slog.Logger {
	return w.Log.With("build_id", j.ID, "delivery", j.Delivery)
}

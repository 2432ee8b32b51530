package builder

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/retry"
)

// timeouts are how long a worker waits for things, and between them.
type timeouts struct {
	ackWait   time.Duration // JetStream gives a job to another after this silence
	heartbeat time.Duration // a running job tells JetStream that it is alive
	presence  time.Duration // the worker tells the build room that it is
	look      time.Duration // engines are asked what they can do
	retry     time.Duration // something that failed is tried again
	logs      time.Duration // for the end of a log, after its build
}

func defaultTimeouts() timeouts {
	return timeouts{
		ackWait: buildbus.JobAckWait, heartbeat: 10 * time.Second, presence: 3 * time.Second,
		look: 500 * time.Millisecond, retry: 500 * time.Millisecond, logs: time.Minute,
	}
}

// Worker takes jobs from the bus and makes them.
type Worker struct {
	Deps
	js       jetstream.JetStream
	metrics  *metrics
	timeouts timeouts
	// after is time.After; a test decides when the time to drain is over.
	after   func(time.Duration) <-chan time.Time
	slots   map[string]chan struct{} // of each engine: one token for each job that may run
	running sync.WaitGroup
}

// New makes a worker. It registers its metrics and does nothing until Run.
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
	}
	for _, e := range d.Engines {
		slots := make(chan struct{}, d.Settings.Concurrency)
		for range d.Settings.Concurrency {
			slots <- struct{}{}
		}
		w.slots[e.Name()] = slots
	}
	return w, nil
}

// Run works until ctx ends. Then it takes no more jobs, gives the running ones
// Settings.DrainTimeout to end, hands back what is left, and returns. It waits
// for a bus or streams that are not there yet. The error is an engine's.
func (w *Worker) Run(ctx context.Context) error {
	// Jobs outlive ctx by the time to drain, and engines outlive the jobs.
	ready, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var engines errgroup.Group
	for _, e := range w.Engines {
		engines.Go(func() error { return e.Run(ready) })
	}
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var takers sync.WaitGroup
	takers.Go(func() { w.attend(ctx, work) })
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

// attend keeps a taker for each thing that the engines can do, and tells the
// build room of every change.
func (w *Worker) attend(ctx, work context.Context) {
	t := takers{stop: map[queue]context.CancelFunc{}}
	defer t.all.Wait()
	var announced string
	var announcedAt time.Time
	for more := true; more; more = retry.Sleep(ctx, w.timeouts.look) {
		skills := w.skills()
		t.match(skills, func(q queue) {
			qctx, stop := context.WithCancel(ctx)
			t.stop[q] = stop
			t.all.Go(func() { w.take(qctx, work, q) })
		})
		p := w.presence(skills)
		if now := fingerprint(p); now != announced || w.Now().Sub(announcedAt) >= w.timeouts.presence {
			announced, announcedAt = now, w.Now()
			w.announce(p)
		}
	}
	t.match(nil, nil)
	w.announce(w.leaving())
}

// takers take the jobs of a queue each, until they are stopped.
type takers struct {
	stop map[queue]context.CancelFunc
	all  sync.WaitGroup
}

// match starts those that are missing, and stops those that nobody can work for.
func (t *takers) match(skills map[queue]Engine, start func(queue)) {
	for q := range skills {
		if t.stop[q] == nil {
			start(q)
		}
	}
	for q, stop := range t.stop {
		if skills[q] == nil {
			stop()
			delete(t.stop, q)
		}
	}
}

// queue is what one consumer is for.
type queue struct{ engine, arch string }

func (q queue) consumer() jetstream.ConsumerConfig { return buildbus.JobConsumer(q.engine, q.arch) }

// logger is the worker's log with the facts about a job.
func (w *Worker) logger(j jobs.Job) *slog.Logger {
	return w.Log.With("build_id", j.ID, "delivery", j.Delivery)
}

package builder_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/testkit"
)

// fake is an engine that the test controls.
type fake struct {
	mu      sync.Mutex
	archs   []string
	problem string
	do      func(ctx context.Context, job jobs.Job, out jobs.Output) (string, error)
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Architectures() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.archs
}

func (f *fake) Problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}

func (f *fake) set(problem string, archs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problem, f.archs = problem, archs
}

func (f *fake) Run(context.Context) error { return nil }

func (f *fake) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	return f.do(ctx, job, out)
}

// cluster is a bus with the build service's streams, and workers.
type cluster struct {
	t       *testing.T
	nc      *nats.Conn
	js      jetstream.JetStream
	service *jobstest.BuildService
	engine  *fake
	// diskFull is true while the disk of a worker is too full.
	diskFull *atomic.Bool
}

func newYard(t *testing.T, nc *nats.Conn) *cluster {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, nc: nc, js: js, service: jobstest.NewBuildService(t), engine: &fake{archs: []string{"amd64"}}, diskFull: &atomic.Bool{}}
}

func (y *cluster) streams() {
	y.t.Helper()
	if err := bus.CreateStreams(y.t.Context(), y.js, buildbus.Streams()...); err != nil {
		y.t.Fatal(err)
	}
}

// work starts a worker. The returned function stops it and waits.
func (y *cluster) work(nc *nats.Conn, s builder.Settings, timing builder.Timing) (stop func()) {
	y.t.Helper()
	w, err := builder.New(builder.Deps{
		NATS: nc, Work: y.service.Client, Engines: []builder.Engine{y.engine}, Log: testkit.Log(y.t),
		Now: time.Now, Metrics: prometheus.NewRegistry(), Settings: s,
		DiskFull: func() error {
			if y.diskFull.Load() {
				return errors.New("the disk is full")
			}
			return nil
		},
	})
	if err != nil {
		y.t.Fatal(err)
	}
	w.SetTiming(timing)
	return testkit.Run(y.t, w.Run)
}

func (y *cluster) submit(id string) { y.t.Helper(); y.publish(id, 0) }

// publish queues a build, for the first time or again.
func (y *cluster) publish(id string, publications int) {
	y.t.Helper()
	b, _ := proto.Marshal(&buildv1.Job{BuildId: id})
	if _, err := y.js.Publish(y.t.Context(), buildbus.Job("fake", "amd64", id), b, jetstream.WithMsgID(fmt.Sprintf("%s.%d", id, publications))); err != nil {
		y.t.Fatal(err)
	}
}

// results returns a function that reads the next result of a build.
func (y *cluster) results() func() *buildv1.Result {
	y.t.Helper()
	next := y.reader(buildbus.ResultStream)
	return func() *buildv1.Result {
		r := &buildv1.Result{}
		if err := proto.Unmarshal(next(), r); err != nil {
			y.t.Fatal(err)
		}
		return r
	}
}

func (y *cluster) reader(stream string) func() []byte {
	y.t.Helper()
	var c jetstream.Consumer
	testkit.Until(y.t, "a reader of "+stream, func() (err error) { // requests to a bus that has just restarted may be lost
		c, err = y.js.OrderedConsumer(y.t.Context(), stream, jetstream.OrderedConsumerConfig{})
		return err
	})
	return func() []byte {
		y.t.Helper()
		m, err := c.Next(jetstream.FetchMaxWait(2 * time.Minute))
		if err != nil {
			y.t.Fatalf("%s: %v", stream, err)
		}
		return m.Data()
	}
}

// left waits until the number of unfinished jobs is want.
func (y *cluster) left(want uint64) {
	y.t.Helper()
	jobstest.Eventually(y.t, fmt.Sprintf("%d jobs left", want), func() bool {
		s, err := y.js.Stream(y.t.Context(), buildbus.JobStream)
		return err == nil && s.CachedInfo().State.Msgs == want
	})
}

func eachBus(t *testing.T, test func(t *testing.T, nc *nats.Conn)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, testkit.NATS(t)) })
	if testkit.Real() {
		t.Run("real", func(t *testing.T) {
			t.Parallel()
			nc, err := bus.Connect(testkit.StartNATS(t).URL, testkit.Log(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			jobstest.Eventually(t, "connected", nc.IsConnected)
			test(t, nc)
		})
	}
}

func TestWorkerBuilds(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, nc *nats.Conn) {
		y := newYard(t, nc)
		y.engine.do = func(_ context.Context, job jobs.Job, out jobs.Output) (string, error) {
			out.Print("build", "first "+job.ID)
			out.Print("", "second "+job.Ticket)
			switch job.ID {
			case "bad_1":
				return "", &jobs.Failure{Reason: jobs.Solve, Message: "they do not fit"}
			case "panic_1":
				panic("oh")
			}
			return "sha256:1", nil
		}
		y.service.Down = 2
		y.work(nc, builder.Settings{Name: "w"}, builder.Timing{}) // before the streams exist
		y.streams()
		next, logs := y.results(), y.reader(buildbus.LogStream)
		for _, id := range []string{"good_1", "bad_1", "panic_1"} {
			y.service.Add(id, 10*time.Minute)
		}
		y.submit("gone_1") // the build service does not know this build
		want := map[string]*buildv1.Result{
			"good_1":  {BuildId: "good_1", Delivery: 1, Ticket: "ticket-good_1", Succeeded: true, Digest: "sha256:1"},
			"bad_1":   {BuildId: "bad_1", Delivery: 1, Ticket: "ticket-bad_1", Reason: "solve", Message: "they do not fit"},
			"panic_1": {BuildId: "panic_1", Delivery: 1, Ticket: "ticket-panic_1", Reason: "internal", Message: "The build service could not finish this build"},
		}
		for _, id := range []string{"good_1", "bad_1", "panic_1"} {
			y.submit(id)
			if got := next(); !proto.Equal(got, want[id]) {
				t.Errorf("got %v, want %v", got, want[id])
			}
			chunk := &buildv1.LogChunk{}
			if err := proto.Unmarshal(logs(), chunk); err != nil {
				t.Fatal(err)
			}
			ends := ""
			if !want[id].GetSucceeded() {
				ends = fmt.Sprintf("The build failed (%s): %s", want[id].GetReason(), want[id].GetMessage())
			}
			if e := chunk.GetEntries(); (len(e) == 2) != (ends == "") || e[len(e)-1].GetText() != ends && ends != "" {
				t.Errorf("the log is %v, and should end with %q", chunk, ends)
			}
			if e := chunk.GetEntries(); e[0].GetPhase() != "build" || e[0].GetText() != "first "+id || e[1].GetText() != "second ticket-"+id {
				t.Errorf("the log is %v", chunk)
			}
		}
		y.left(0)
		if n := y.service.Deliveries("gone_1"); n != 1 {
			t.Errorf("the build that is gone was asked for %d times", n)
		}
	})
}

func TestWorkerCancelAndDeadline(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, nc *nats.Conn) {
		y := newYard(t, nc)
		y.streams()
		next := y.results()
		started, ended := make(chan string, 2), make(chan string, 2)
		y.engine.do = func(ctx context.Context, job jobs.Job, _ jobs.Output) (string, error) {
			started <- job.ID
			<-ctx.Done()
			ended <- job.ID
			return "", ctx.Err()
		}
		y.work(nc, builder.Settings{}, builder.Timing{})
		y.service.Add("stop_1", 10*time.Minute)
		y.submit("stop_1")
		<-started
		for range 20 { // a client that can write to the bus but does not know the ticket
			if err := nc.Publish(buildbus.Cancel("stop_1"), []byte("guessed")); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Publish(buildbus.Cancel("stop_1"), nil); err != nil {
			t.Fatal(err)
		}
		proof := sha256.Sum256([]byte("ticket-stop_1"))
		if err := nc.Publish(buildbus.Cancel("stop_1"), []byte(hex.EncodeToString(proof[:]))); err != nil {
			t.Fatal(err)
		}
		if r := next(); r.GetReason() != "cancelled" || r.GetSucceeded() {
			t.Errorf("got %v", r)
		}
		y.service.Add("slow_1", 200*time.Millisecond)
		y.submit("slow_1")
		if r := next(); r.GetReason() != "timeout" {
			t.Errorf("got %v", r)
		}
		y.left(0)
	})
}

// TestWorkerDies checks that the job of a silent worker goes to another worker.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartNATS(t.TempDir(), testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	connect := func() *nats.Conn {
		nc, err := bus.Local(server, testkit.Log(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	dying := connect()
	y := newYard(t, connect())
	y.streams()
	next := y.results()
	tries := make(chan int32, 10)
	over := make(chan struct{})
	y.engine.do = func(_ context.Context, job jobs.Job, _ jobs.Output) (string, error) {
		tries <- job.Delivery
		if job.Delivery == 1 {
			<-over
			return "", fmt.Errorf("nobody hears this")
		}
		return "sha256:2", nil
	}
	y.work(dying, builder.Settings{Name: "dying"}, builder.Timing{AckWait: time.Second})
	y.service.Add("b_1", 10*time.Minute)
	y.submit("b_1")
	<-tries
	dying.Close() // as after kill -9: no heartbeat and no result
	y.work(connect(), builder.Settings{Name: "other"}, builder.Timing{AckWait: time.Second})
	if r := next(); !r.GetSucceeded() || r.GetDelivery() != 2 {
		t.Errorf("got %v", r)
	}
	close(over)
	y.left(0)
}

// TestWorkerHeartbeat checks that a worker reports its job to JetStream for as long as the
// build runs.
func TestWorkerHeartbeat(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, nc *nats.Conn) {
		y := newYard(t, nc)
		y.streams()
		next := y.results()
		acks, err := nc.SubscribeSync("$JS.ACK." + buildbus.JobStream + ".>")
		if err != nil {
			t.Fatal(err)
		}
		y.engine.do = func(ctx context.Context, _ jobs.Job, _ jobs.Output) (string, error) {
			for range 3 {
				if m, err := acks.NextMsgWithContext(ctx); err != nil || string(m.Data) != "+WPI" {
					t.Errorf("JetStream hears %v, %v", m, err)
				}
			}
			return "sha256:3", nil
		}
		y.work(nc, builder.Settings{Concurrency: 2}, builder.Timing{Heartbeat: 20 * time.Millisecond})
		y.service.Add("b_1", 10*time.Minute)
		y.submit("b_1")
		if r := next(); r.GetDelivery() != 1 || !r.GetSucceeded() {
			t.Errorf("got %v", r)
		}
		if n := y.service.Deliveries("b_1"); n != 1 {
			t.Errorf("it was taken %d times", n)
		}
	})
}

// TestWorkerDrains also checks that a build which returned to the queue starts over, and
// that its log contains the output of both attempts.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, nc *nats.Conn) {
		y := newYard(t, nc)
		y.streams()
		next, logs := y.results(), y.reader(buildbus.LogStream)
		started := make(chan struct{}, 5)
		finish := make(chan struct{})
		var tries atomic.Int32
		y.engine.do = func(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
			started <- struct{}{}
			if job.ID == "long_1" {
				out.Print("", fmt.Sprintf("try %d, delivery %d", tries.Add(1), job.Delivery))
			}
			if tries.Load() == 1 && job.ID == "long_1" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			<-finish
			return "sha256:4", nil
		}
		over := make(chan time.Time) // the drain timeout
		finalPresence, err := nc.SubscribeSync(buildbus.Workers)
		if err != nil {
			t.Fatal(err)
		}
		stop := y.work(nc, builder.Settings{Concurrency: 2}, builder.Timing{Drained: over})
		for _, id := range []string{"short_1", "long_1", "later_1"} {
			y.service.Add(id, 10*time.Minute)
			y.submit(id)
		}
		<-started
		<-started
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		for p := (&buildv1.Presence{Slots: 1}); p.GetSlots() > 0; {
			if m, err := finalPresence.NextMsg(time.Minute); err != nil || proto.Unmarshal(m.Data, p) != nil {
				t.Fatal(err)
			}
		}
		close(finish)
		if r := next(); r.GetBuildId() != "short_1" || !r.GetSucceeded() {
			t.Errorf("got %v", r)
		}
		close(over)
		<-stopped
		if r := next(); !proto.Equal(r, &buildv1.Result{BuildId: "long_1", Delivery: 1, Ticket: "ticket-long_1", HandedBack: true}) {
			t.Errorf("got %v", r)
		}
		if n := y.service.Deliveries("later_1"); n != 0 {
			t.Error("a worker that stops took another job")
		}
		y.left(1)
		y.publish("long_1", 1) // as the build service does
		y.work(nc, builder.Settings{}, builder.Timing{})
		got := []string{next().GetBuildId(), next().GetBuildId()}
		slices.Sort(got)
		if !slices.Equal(got, []string{"later_1", "long_1"}) {
			t.Errorf("got %v", got)
		}
		y.left(0)
		for _, want := range []string{"try 1, delivery 1", "try 2, delivery 1"} {
			c := &buildv1.LogChunk{}
			if err := proto.Unmarshal(logs(), c); err != nil || c.GetEntries()[0].GetText() != want {
				t.Errorf("the log goes on with %v, %v; want %s", c, err, want)
			}
		}
	})
}

// TestWorkerLosesEngine checks that a build does not fail if the engine's daemon ends
// between the job's delivery and its start.
func TestWorkerLosesEngine(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, nc *nats.Conn) {
		y := newYard(t, nc)
		y.streams()
		next := y.results()
		y.service.OnTake = func() {
			y.engine.mu.Lock()
			defer y.engine.mu.Unlock()
			y.engine.archs = nil
		}
		y.work(nc, builder.Settings{}, builder.Timing{})
		y.service.Add("a_1", 10*time.Minute)
		y.submit("a_1")
		if r := next(); !proto.Equal(r, &buildv1.Result{BuildId: "a_1", Delivery: 1, Ticket: "ticket-a_1", HandedBack: true}) {
			t.Errorf("got %v", r)
		}
		y.left(0)
	})
}

func TestWorkerPresence(t *testing.T) {
	t.Parallel()
	eachBus(t, func(t *testing.T, nc *nats.Conn) {
		y := newYard(t, nc)
		y.engine.set("") // the engine is starting
		got := make(chan *nats.Msg, 100)
		if _, err := nc.ChanSubscribe(buildbus.Workers, got); err != nil {
			t.Fatal(err)
		}
		stop := y.work(nc, builder.Settings{Name: "w", Concurrency: 3}, builder.Timing{})
		wait := func(what string, is func(*buildv1.Presence) bool) {
			t.Helper()
			jobstest.Eventually(t, what, func() bool {
				p := &buildv1.Presence{}
				return proto.Unmarshal((<-got).Data, p) == nil && is(p)
			})
		}
		wait("a start", func(p *buildv1.Presence) bool { return p.GetProblem() == "" && len(p.GetCapabilities()) == 0 })
		y.engine.set("it is broken")
		wait("a problem", func(p *buildv1.Presence) bool {
			return p.GetProblem() == "fake: it is broken" && p.GetWorker() == "w" && p.GetSlots() == 3 && p.GetSentAt() != nil
		})
		y.engine.set("", "arm64", "amd64")
		capable := func(p *buildv1.Presence) bool {
			c := p.GetCapabilities()
			return p.GetProblem() == "" && !p.GetDiskFull() && len(c) == 2 && c[0].GetArchitecture() == "amd64" && c[1].GetEngine() == "fake"
		}
		wait("capabilities", capable)
		y.diskFull.Store(true)
		wait("a full disk", func(p *buildv1.Presence) bool {
			return p.GetDiskFull() && len(p.GetCapabilities()) == 0 && p.GetProblem() == "its disk is almost full"
		})
		y.diskFull.Store(false)
		wait("space on the disk", capable)
		stop()
		wait("a farewell", func(p *buildv1.Presence) bool { return p.GetSlots() == 0 && p.GetProblem() == "" })
	})
}

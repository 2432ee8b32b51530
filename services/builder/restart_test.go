package builder_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
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

// restartable is a NATS server that keeps its streams across restarts.
type restartable struct {
	t   *testing.T
	dir string
	mu  sync.Mutex
	now *server.Server
}

func (r *restartable) start() {
	s, err := embedded.StartNATS(r.dir, testkit.Log(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = s
}

func (r *restartable) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Shutdown()
	r.now.WaitForShutdown()
}

// InProcessConn implements nats.InProcessConnProvider.
func (r *restartable) InProcessConn() (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.InProcessConn()
}

func TestWorkerSurvivesARestartOfTheBus(t *testing.T) {
	t.Parallel()
	r := &restartable{t: t, dir: t.TempDir()}
	r.start()
	nc, err := bus.Local(r, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); r.stop() })
	y := newYard(t, nc)
	y.streams()
	started, finish, finished := make(chan struct{}), make(chan struct{}), make(chan struct{})
	y.engine.do = func(_ context.Context, job jobs.Job, out jobs.Output) (string, error) {
		if job.ID == "during_1" {
			out.Print("build", "before")
			close(started)
			<-finish
			out.Print("", "after")
			close(finished)
		}
		return "sha256:5", nil
	}
	stop := y.work(nc, builder.Settings{}, builder.Timing{})
	t.Cleanup(stop)
	for _, id := range []string{"during_1", "later_1"} {
		y.service.Add(id, 10*time.Minute)
	}
	y.submit("during_1")
	<-started
	r.stop()
	close(finish) // the build ends while the bus is stopped
	<-finished
	r.start()
	jobstest.Eventually(t, "connected again", nc.IsConnected)
	next := y.results()
	if got := next(); got.GetBuildId() != "during_1" || !got.GetSucceeded() || got.GetDelivery() != 1 {
		t.Errorf("got %v", got)
	}
	y.submit("later_1")
	if got := next(); got.GetBuildId() != "later_1" || !got.GetSucceeded() {
		t.Errorf("got %v", got)
	}
	y.left(0)
	logs := y.reader(buildbus.LogStream)
	var lines []string
	for len(lines) < 2 {
		c := &buildv1.LogChunk{}
		if err := proto.Unmarshal(logs(), c); err != nil {
			t.Fatal(err)
		}
		for _, e := range c.GetEntries() {
			lines = append(lines, e.GetText())
		}
	}
	if fmt.Sprint(lines) != "[before after]" {
		t.Errorf("the log is %v", lines)
	}
}

// TestWorkerSendsLongLogs checks that a long log arrives in order, with a line in place of
// the omitted part.
func TestWorkerSendsLongLogs(t *testing.T) {
	t.Parallel()
	y := newYard(t, testkit.NATS(t))
	y.streams()
	next := y.results()
	const lines, width = 20_000, 1000 // 20 MB
	y.engine.do = func(_ context.Context, _ jobs.Job, out jobs.Output) (string, error) {
		for i := range lines {
			out.Print("", fmt.Sprintf("%0*d", width, i))
		}
		return "sha256:6", nil
	}
	y.work(y.nc, builder.Settings{}, builder.Timing{})
	y.service.Add("b_1", 10*time.Minute)
	y.submit("b_1")
	if r := next(); !r.GetSucceeded() {
		t.Fatalf("got %v", r)
	}
	logs := y.reader(buildbus.LogStream)
	size, last, gaps := 0, -1, 0
	for last != lines-1 {
		c := &buildv1.LogChunk{}
		if err := proto.Unmarshal(logs(), c); err != nil {
			t.Fatal(err)
		}
		if proto.Size(c) > 80<<10 {
			t.Fatalf("a chunk has %d bytes", proto.Size(c))
		}
		for _, e := range c.GetEntries() {
			size += len(e.GetText())
			var n int
			if _, err := fmt.Sscanf(e.GetText(), "%d", &n); err != nil {
				gaps++
				continue
			}
			if n != last+1 && gaps == 0 || n <= last {
				t.Fatalf("line %d follows %d", n, last)
			}
			last = n
		}
	}
	if gaps != 1 || size < 9<<20 || size > 10<<20 {
		t.Errorf("%d gaps, %d bytes", gaps, size)
	}
}

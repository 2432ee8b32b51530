package builder_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder"
	"slipway.dev/services/builder/engine/buildkit"
	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/testkit"
)

// TestWorkerWithBuildKit runs a job from the bus until the image is pushed.
func TestWorkerWithBuildKit(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Memory: 1 << 30})
	nc := testkit.NATS(t)
	y := newYard(t, nc)
	y.service = w.BuildService
	y.streams()
	next, logs := y.results(), y.reader(buildbus.LogStream)
	worker, err := builder.New(builder.Deps{
		NATS: nc, Work: w.BuildService.Client, Engines: []builder.Engine{buildkit.New(w.EngineOptions)}, Log: testkit.Log(t),
		Now: time.Now, Metrics: prometheus.NewRegistry(), Settings: builder.Settings{Concurrency: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := testkit.Run(t, worker.Run)
	for _, id := range []string{"w_1", "w_2", "w_3"} {
		j := w.Job(id, "FROM BASE\nRUN echo hello "+id+"; sleep 1\n")
		w.BuildService.Add(id, 10*time.Minute, func(r *buildv1.TakeJobResponse) { r.Recipe, r.Target = j.Recipe, j.Target })
		b, _ := proto.Marshal(&buildv1.Job{BuildId: id})
		if _, err := y.js.Publish(t.Context(), buildbus.Job("buildkit", "amd64", id), b); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		r := next()
		if !r.GetSucceeded() || w.Pull(t, "made/here:"+r.GetBuildId()).Digest.String() != r.GetDigest() {
			t.Errorf("got %v", r)
		}
	}
	if chunk := string(logs()); !strings.Contains(chunk, "[internal]") {
		t.Errorf("the log begins with %q", chunk)
	}
	y.left(0)
	stop()
}

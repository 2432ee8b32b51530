package buildkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/jobs"
)

func TestRendezvous(t *testing.T) {
	t.Parallel()
	if got := rendezvous("k", nil); got != "" {
		t.Errorf("nobody was chosen: %q", got)
	}
	all, fewer := []string{"a", "b", "c"}, []string{"c", "a"}
	count := map[string]int{}
	for i := range 3000 {
		key := fmt.Sprint(i)
		was := rendezvous(key, all)
		count[was]++
		if now := rendezvous(key, fewer); was != "b" && now != was {
			t.Fatalf("key %s moved from %s to %s", key, was, now)
		}
	}
	for _, n := range all {
		if count[n] < 800 {
			t.Errorf("%s got %d of 3000 keys", n, count[n])
		}
	}
}

// TestDaemonThatIsSilent checks that a daemon has time to start, and that a later missing
// response is reported.
func TestDaemonThatIsSilent(t *testing.T) {
	t.Parallel()
	b := New(Options{Addresses: []string{"unix://" + t.TempDir() + "/nobody.sock"}})
	b.probe(t.Context(), b.o.Addresses[0])
	if got := b.Problem(); got != "" || len(b.Architectures()) > 0 {
		t.Errorf("while it may start its problem is %q, and it builds for %q", got, b.Architectures())
	}
	b.mu.Lock()
	b.began = b.began.Add(-time.Hour)
	b.mu.Unlock()
	b.probe(t.Context(), b.o.Addresses[0])
	if got := b.Problem(); !strings.Contains(got, "does not respond") {
		t.Errorf("later its problem is %q", got)
	}
}

// lines is an Output that records lines.
type lines struct{ got, phases []string }

func (l *lines) Print(phase, text string) {
	l.got = append(l.got, text)
	if phase != "" {
		l.phases = append(l.phases, phase+"@"+text)
	}
}

// update passes updates to a progress.
func update(p *progress, updates ...*client.SolveStatus) {
	c := make(chan *client.SolveStatus, len(updates))
	for _, u := range updates {
		c <- u
	}
	close(c)
	p.follow(c)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(100, 0)
	at := func(s float64) *time.Time { t := t0.Add(time.Duration(s * float64(time.Second))); return &t }
	run, push := digest.FromString("run"), digest.FromString("push")
	out := &lines{}
	p := newProgress(out, func(s string) string { return s })
	update(p,
		&client.SolveStatus{Vertexes: []*client.Vertex{{Digest: run, Name: "RUN x", Started: at(0)}}},
		&client.SolveStatus{Logs: []*client.VertexLog{{Vertex: run, Data: []byte("one\ntw"), Timestamp: *at(1)}}},
		&client.SolveStatus{Logs: []*client.VertexLog{{Vertex: run, Data: []byte("o\n10%\r20%\r\nlast"), Timestamp: *at(2)}}},
		&client.SolveStatus{Vertexes: []*client.Vertex{{Digest: run, Name: "RUN x", Started: at(0), Completed: at(2.5)}}},
		// The end of a step may be reported before the end of its last line.
		&client.SolveStatus{Logs: []*client.VertexLog{{Vertex: run, Data: []byte(" line\nno end"), Timestamp: *at(2.4)}}},
		&client.SolveStatus{Vertexes: []*client.Vertex{{Digest: push, Name: "exporting to image", Started: at(3), Completed: at(4), Error: "failed to push: 403"}}},
	)
	want := []string{"#1 RUN x", "#1 1.000 one", "#1 2.000 two", "#1 2.000 20%", "#1 DONE 2.5s", "#1 2.400 last line",
		"#2 exporting to image", "#2 ERROR 1.0s: failed to push: 403", "#1 2.500 no end"}
	if fmt.Sprint(out.got) != fmt.Sprint(want) {
		t.Errorf("got %q", out.got)
	}
	if fmt.Sprint(out.phases) != "[build@#1 RUN x push@#2 exporting to image]" {
		t.Errorf("the phases are %v", out.phases)
	}
	never := func() bool { return false }
	if f := p.failure(t.Context(), errors.New("failed to solve: failed to push x: 403"), never); f.Reason != jobs.Push || f.Message != "failed to push x: 403" {
		t.Errorf("got %v", f)
	}
}

func TestFailureReasons(t *testing.T) {
	t.Parallel()
	exit := func(code uint32) error { return fmt.Errorf("failed: %w", &gateway.ExitError{ExitCode: code}) }
	yes, no := func() bool { return true }, func() bool { return false }
	d, now := digest.FromString("x"), time.Unix(1, 0)
	failing := func(says string) *client.SolveStatus {
		return &client.SolveStatus{
			Vertexes: []*client.Vertex{{Digest: d, Name: "RUN " + solveMarker, Started: &now, Completed: &now, Error: "exit"}},
			Logs:     []*client.VertexLog{{Vertex: d, Data: []byte(says), Timestamp: now}},
		}
	}
	for _, c := range []struct {
		name string
		says string
		err  error
		oom  func() bool
		want jobs.Reason
	}{
		{"exit", "x\n", exit(1), no, jobs.Build},
		{"killed", "x\n", exit(137), no, jobs.Build},
		{"out of memory", "x\n", exit(137), yes, jobs.Memory},
		{"memory hit, but another exit", "x\n", exit(1), yes, jobs.Build},
		{"solve", solveMarker + "\n", exit(1), no, jobs.Solve},
		{"the marker within a line", "not: " + solveMarker + "\n", exit(1), no, jobs.Build},
		{"the marker without a failing step", solveMarker + "\n", errors.New("denied"), no, jobs.Build},
	} {
		p := newProgress(&lines{}, func(s string) string { return s })
		update(p, failing(c.says))
		if f := p.failure(t.Context(), c.err, c.oom); f.Reason != c.want {
			t.Errorf("%s: got %v", c.name, f)
		}
	}
}

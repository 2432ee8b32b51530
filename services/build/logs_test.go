package build_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/testkit"
)

// reader reads a log as a client does.
type reader struct {
	stream interface {
		Recv() (*buildv1.StreamLogsResponse, error)
	}
	lines []string
	ended *buildv1.AwaitBuildResponse
}

func (r replica) follow(t *testing.T, id string, after int64) *reader {
	t.Helper()
	stream, err := r.StreamLogs(t.Context(), &buildv1.StreamLogsRequest{BuildId: id, After: after, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{stream: stream}
}

// read reads lines until there are n, or the log has ended.
func (r *reader) read(t *testing.T, n int) []string {
	t.Helper()
	for len(r.lines) < n && r.ended == nil {
		m, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range m.GetLines() {
			r.lines = append(r.lines, fmt.Sprint(l.GetOrdinal(), " ", l.GetText()))
		}
		r.ended = m.GetEnded()
	}
	return r.lines
}

// TestLogIsTheSameForEverybody reads a log live, from the middle, across a second delivery,
// after it was stored, and on another replica.
func TestLogIsTheSameForEverybody(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	a, b := p.replica(t, 100), p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("log", "", nil)
	a.submit(t, req)
	first := w.take(t, a, 1)
	live := a.follow(t, first.id, 0)
	first.print(t, 1, "one", "two")
	first.print(t, 1, "one", "two") // the bus drops a duplicate message
	if diff := cmp.Diff([]string{"1 one", "2 two"}, live.read(t, 2)); diff != "" {
		t.Fatal(diff)
	}
	second := first
	second.delivery = 2
	second.tell(t, a)
	second.print(t, 1, "one", "two", "three")
	resumed := b.follow(t, first.id, 2)
	want := []string{"1 one", "2 two", "3 one", "4 two", "5 three"}
	if diff := cmp.Diff(want[2:], resumed.read(t, 3)); diff != "" {
		t.Fatal(diff)
	}
	second.succeed(t, p.push(t, req, first.id))
	for name, r := range map[string]*reader{"live": live, "resumed": resumed} {
		if r.read(t, 1000); !r.ended.GetCompletedAt().IsValid() {
			t.Errorf("%s: it does not hear of the end", name)
		}
	}
	if diff := cmp.Diff(want, live.lines); diff != "" {
		t.Error(diff)
	}
	for after := range int64(6) {
		got := b.follow(t, first.id, after)
		if diff := cmp.Diff(want[after:], got.read(t, 1000), cmp.Transformer("none", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("stored, after %d: %s", after, diff)
		}
	}
}

// TestReadWithoutFollowing checks that reading without following does not wait for more.
func TestReadWithoutFollowing(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	r.submit(t, p.request("so far", "", nil))
	j := w.take(t, r, 1)
	j.print(t, 1, "one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the build never ends
	defer cancel()
	stream, err := r.StreamLogs(ctx, &buildv1.StreamLogsRequest{BuildId: j.id})
	if err != nil {
		t.Fatal(err)
	}
	got := &reader{stream: stream}
	if diff := cmp.Diff([]string{"1 one"}, got.read(t, 1000)); diff != "" {
		t.Error(diff)
	}
}

// TestAttackManyFollowers checks that the bus has one consumer of a log per process for any
// number of followers, and none when they have disconnected.
func TestAttackManyFollowers(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	r.submit(t, p.request("popular", "", nil))
	j := w.take(t, r, 1)
	j.print(t, 1, "one")
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	consumers := func() int {
		stream, err := js.Stream(t.Context(), buildbus.LogStream)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.Consumers
	}
	ctx, leave := context.WithCancel(t.Context())
	for range 40 {
		stream, err := r.StreamLogs(ctx, &buildv1.StreamLogsRequest{BuildId: j.id, Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || m.GetLines()[0].GetText() != "one" {
			t.Fatalf("a follower reads %v (%v)", m, err)
		}
	}
	if n := consumers(); n != 1 {
		t.Errorf("40 followers have %d consumers", n)
	}
	leave()
	testkit.Until(t, "no consumer when they have gone", func() error {
		if n := consumers(); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

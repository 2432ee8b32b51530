package build_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// tally counts as the metrics service does, by ordinals only.
type tally struct {
	stream jetstream.Stream

	mu   sync.Mutex
	at   uint64 // the last message
	last map[string]int64
	orgs map[string]int
	// usage has the amounts by metric, user, workspace and organisation of a robot.
	usage map[string]int64
	gaps  int
}

// listen starts a tally, and creates the stream of the metrics service.
func (p *deployment) listen(t *testing.T) *tally {
	t.Helper()
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: metricsbus.EventStream, Subjects: []string{metricsbus.Events}})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	y := &tally{stream: stream, last: map[string]int64{}, orgs: map[string]int{}, usage: map[string]int64{}}
	consuming, err := consumer.Consume(y.receive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consuming.Stop)
	return y
}

func (y *tally) receive(m jetstream.Msg) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if meta, err := m.Metadata(); err == nil {
		y.at = meta.Sequence.Stream
	}
	b := &metricsv1.Batch{}
	if err := proto.Unmarshal(m.Data(), b); err != nil {
		y.gaps++
		return
	}
	if b.GetFirst() > y.last[b.GetSource()]+1 {
		y.gaps++
	}
	for i, e := range b.GetEvents() {
		if at := b.GetFirst() + int64(i); at > y.last[b.GetSource()] {
			y.last[b.GetSource()] = at
			y.usage[fmt.Sprintf("%s %d/%d/%d", e.GetMetric(), e.GetUserId(), e.GetWorkspaceId(), e.GetRobotOrgId())] += max(1, e.GetAmount())
			y.orgs[fmt.Sprint(e.GetMetric(), " ", e.GetOrg(), " ", time.Unix(int64(e.GetDay())*86400, 0).UTC().Format(time.DateOnly))]++
		}
	}
}

// wants waits until all messages have arrived and the counts are equal to want.
func (y *tally) wants(t *testing.T, want map[string]int) {
	t.Helper()
	sum := func() (n int, at uint64) {
		y.mu.Lock()
		defer y.mu.Unlock()
		for _, c := range y.orgs {
			n += c
		}
		return n, y.at
	}
	all := 0
	for n := range maps.Values(want) {
		all += n
	}
	testkit.Until(t, "all of them", func() error {
		info, err := y.stream.Info(t.Context())
		if err != nil {
			return err
		}
		if n, at := sum(); n < all || at < info.State.LastSeq {
			return fmt.Errorf("%d of %d are counted, of %d messages %d are heard", n, all, info.State.LastSeq, at)
		}
		return nil
	})
	y.mu.Lock()
	defer y.mu.Unlock()
	if d := cmp.Diff(want, y.orgs); d != "" || y.gaps > 0 || len(y.last) != 1 {
		t.Errorf("%d gaps, %v: %s", y.gaps, y.last, d)
	}
}

// TestAdmissionsAreCounted checks that each admission is counted once, whichever replica
// publishes it, including those from before the bus was available.
func TestAdmissionsAreCounted(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeaf(t, db)
		p.now = time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
		a, b := p.replica(t, 100), p.replica(t, 100)
		w := newWorker(t, p, 50)
		ada := &platformv1.Identity{Endpoint: "e", UserId: 1, Email: "Ada@Example.org"}
		one := p.request("one", "", ada)
		a.submit(t, one)
		b.submit(t, one) // joins
		b.submit(t, p.request("two", "", nil))
		got := p.listen(t)
		var wg sync.WaitGroup
		for i := range 20 {
			r := []replica{a, b}[i%2]
			wg.Go(func() { r.submit(t, p.request(fmt.Sprint("more ", i), "", ada)) })
		}
		wg.Wait()
		a.submit(t, p.pair("pair")) // counts twice
		dry := p.request("dry", "", ada)
		dry.DryRun = true
		a.submit(t, dry)
		want := map[string]int{"METRIC_BUILDS example.org 2026-02-28": 21, "METRIC_BUILDS  2026-02-28": 3}
		got.wants(t, want)

		p.sleep(12 * time.Hour)
		w.appear(t, 50)
		made := p.request("made elsewhere", "", ada)
		p.push(t, made, made.GetContentId()+"_7")
		if r := b.submit(t, made); !r.GetCached() { // found, not admitted
			t.Errorf("got %v", r)
		}
		b.submit(t, p.request("tomorrow's", "", ada))
		want["METRIC_BUILDS example.org 2026-03-01"] = 1
		got.wants(t, want)
	})
}

// TestDurationsAreCounted checks that the time of each ended build is counted once for its owner,
// whichever replica publishes it, and that users of other platforms are not named.
func TestDurationsAreCounted(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeaf(t, db)
		a := p.replica(t, 100)
		w := newWorker(t, p, 50)
		for i, c := range []struct {
			owner   *platformv1.Identity
			seconds float64
			fails   bool
		}{
			{&platformv1.Identity{Endpoint: "e", UserId: 1, WorkspaceId: 7, Email: "ada@example.org"}, 90, false},
			{&platformv1.Identity{Endpoint: "e", UserId: 1, WorkspaceId: 7, Email: "ada@example.org"}, 0.25, true},
			{&platformv1.Identity{Endpoint: "e", UserId: 2, WorkspaceId: 0, RobotOrgId: 9}, 2.5, false},
			{&platformv1.Identity{Endpoint: "another", UserId: 1, WorkspaceId: 7, Email: "eve@example.org"}, 5, false},
			{nil, 0, true},
		} {
			req := p.request(fmt.Sprint("build ", i), "", c.owner)
			a.submit(t, req)
			j := w.take(t, a, 1)
			p.sleep(time.Duration(c.seconds * float64(time.Second)))
			w.appear(t, 50) // its presence has expired
			if c.fails {
				j.report(t, &buildv1.Result{Reason: "exit", Message: "no"})
			} else {
				j.succeed(t, p.push(t, req, j.id))
			}
			j.ended(t, a)
		}
		got := p.listen(t)
		p.replica(t, 100)
		p.replica(t, 100)
		want := map[string]int64{
			"METRIC_BUILDS 1/7/0": 2, "METRIC_BUILD_SECONDS 1/7/0": 91, "METRIC_BUILDS 2/0/9": 1, "METRIC_BUILD_SECONDS 2/0/9": 3,
			"METRIC_BUILDS 0/0/0": 2, "METRIC_BUILD_SECONDS 0/0/0": 6,
		}
		testkit.Until(t, "the durations", func() error {
			got.mu.Lock()
			defer got.mu.Unlock()
			if d := cmp.Diff(want, got.usage); d != "" {
				return errors.New(d)
			}
			return nil
		})
	})
}

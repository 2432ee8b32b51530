package build_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// eventReader reads the events of builds from the bus.
type eventReader struct {
	consumer jetstream.Consumer
	got      []string
}

// readEvents returns a reader of the events that are published from now on.
func (p *deployment) readEvents(t *testing.T) *eventReader {
	t.Helper()
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), eventbus.Stream()); err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateOrUpdateConsumer(t.Context(), eventbus.StreamName, jetstream.ConsumerConfig{Durable: "test", FilterSubject: eventbus.Builds, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	return &eventReader{consumer: c}
}

// wants waits until exactly these events have arrived, in this order, since the reader was created.
func (r *eventReader) wants(t *testing.T, want ...string) {
	t.Helper()
	poll(t, "events", func(context.Context) error {
		m, err := r.consumer.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
		if err == nil {
			e := &eventsv1.Event{}
			if err := proto.Unmarshal(m.Data(), e); err != nil {
				t.Fatal(err)
			}
			r.got = append(r.got, e.GetId())
			_ = m.Ack()
		}
		if diff := cmp.Diff(want, r.got); diff != "" {
			return fmt.Errorf("%w: %s", err, diff)
		}
		return nil
	})
}

// TestEventsArePublished checks that the events of builds are published once and in order by two
// replicas, also those from a time without NATS, and the metrics of those that wait.
func TestEventsArePublished(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		conn, nats := testkit.UnsteadyNATS(t)
		p.bus = conn
		got := p.readEvents(t)
		a, b := p.replica(t, 100), p.replica(t, 100)
		w := newWorker(t, p, 2)
		ada := &platformv1.Identity{Endpoint: "e", UserId: 1}
		a.submit(t, p.request("fails", "", ada))
		first := w.take(t, a, 1)
		got.wants(t, first.id+".build.started")
		first.report(t, &buildv1.Result{Reason: "build", Message: "step 2 failed"})
		first.ended(t, b)
		got.wants(t, first.id+".build.started", first.id+".build.failed")
		anonymous := p.request("works", "", nil)
		b.submit(t, anonymous)
		second := w.take(t, b, 1)
		second.succeed(t, p.push(t, anonymous, second.id))
		second.ended(t, a)
		all := []string{first.id + ".build.started", first.id + ".build.failed", second.id + ".build.succeeded"}
		got.wants(t, all...)

		nats.Stop()
		p.sleep(time.Minute)
		if _, err := db.ExecContext(t.Context(), `INSERT INTO build_events (build_id, type, at) VALUES ($1, $2, $3)`, second.id, eventbus.BuildStarted, sqldb.Micros(p.clock())); err != nil {
			t.Fatal(err)
		}
		p.sleep(11 * time.Minute)
		exports := func(when string, waiting, age float64) {
			t.Helper()
			poll(t, when, func(context.Context) error {
				n, err1 := gauge(p.replicas[0], "slipway_build_events_waiting")
				seconds, err2 := gauge(p.replicas[1], "slipway_build_events_age_seconds")
				if err1 != nil || err2 != nil || n != waiting || seconds != age {
					return fmt.Errorf("%v events wait for %v s: %w, %w", n, seconds, err1, err2)
				}
				return nil
			})
		}
		exports("an event to wait", 1, 660)
		nats.Start()
		got.wants(t, append(all, second.id+".build.started")...)
		exports("no event to wait", 0, 0)
	})
}

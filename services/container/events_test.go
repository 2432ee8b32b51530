package container_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// An announcer is a service that publishes events of containers, on a NATS that may stop.
type announcer struct {
	*harness
	t        *testing.T
	store    store.Store
	js       jetstream.JetStream
	nats     *testkit.Unsteady
	consumer jetstream.Consumer
	got      map[string]bool // ids of requests with an event
}

func newAnnouncer(t *testing.T, db *sqldb.DB) *announcer {
	t.Helper()
	conn, nats := testkit.UnsteadyNATS(t)
	a := &announcer{t: t, nats: nats, got: map[string]bool{}}
	a.harness = newHarnessWith(t, db, func(d *container.Deps, _ *testkit.Registry) { d.Events, d.Platform = conn, unlimited{} })
	a.store = store.New(db)
	var err error
	if a.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	if _, err := a.js.CreateOrUpdateStream(t.Context(), eventbus.Stream()); err != nil {
		t.Fatal(err)
	}
	a.consumer, err = a.js.CreateOrUpdateConsumer(t.Context(), eventbus.StreamName, jetstream.ConsumerConfig{Durable: "test", FilterSubject: eventbus.Containers, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, a.service.Run)
	testkit.Until(t, "the consumer", func() error {
		_, err := a.js.Consumer(t.Context(), eventbus.StreamName, eventbus.ContainerConsumer().Config.Durable)
		return err
	})
	return a
}

// unlimited is a platform without limits of organisations.
type unlimited struct{ platformv1.AccessServiceClient }

func (unlimited) GetLimits(context.Context, *platformv1.GetLimitsRequest, ...grpc.CallOption) (*platformv1.GetLimitsResponse, error) {
	return &platformv1.GetLimitsResponse{}, nil
}

// requests stores requests of a user whose image the build b_1 builds.
func (a *announcer) requests(user, workspace int64, ids ...string) {
	a.t.Helper()
	group, ctx := errgroup.WithContext(a.t.Context())
	group.SetLimit(100) // concurrent requests share a transaction
	for _, id := range ids {
		group.Go(func() error {
			return a.store.Insert(ctx, store.Record{
				Created: a.clock(), Expires: a.clock().Add(time.Hour), Request: &containerv1.ContainerRequest{WorkflowId: "run"},
				Plan: &containerv1.Plan{Token: id, BuildId: "b_1", Identity: &platformv1.Identity{Endpoint: "https://platform.test", UserId: user, WorkspaceId: workspace}},
			})
		})
	}
	if err := group.Wait(); err != nil {
		a.t.Fatal(err)
	}
}

// ids returns n ids with a prefix.
func ids(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%06d", prefix, i)
	}
	return out
}

// ended publishes that the build b_1 failed some time ago. The service reads its requests again a
// minute after that, by the clock of the test; NATS measures the pause itself.
func (a *announcer) ended(ago time.Duration) {
	a.t.Helper()
	end := timestamppb.New(a.clock().Add(-ago))
	e := &eventsv1.Event{
		Id: "b_1.build.failed", Type: eventbus.BuildFailed, Time: end,
		Data: &eventsv1.Event_Build{Build: &eventsv1.BuildEvent{
			BuildId: "b_1", EndTime: end, Succeeded: new(false), Reason: new("build"), Message: new("step 2 failed"),
		}},
	}
	if err := eventbus.Publish(a.t.Context(), a.js, eventbus.Builds, e); err != nil {
		a.t.Fatal(err)
	}
}

// read reads the events that have arrived, and returns the ids of all requests that have had one. An
// event may come again after NATS has stopped.
func (a *announcer) read() []string {
	a.t.Helper()
	for {
		m, err := a.consumer.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
		if err != nil {
			break
		}
		e := &eventsv1.Event{}
		if err := proto.Unmarshal(m.Data(), e); err != nil {
			a.t.Fatal(err)
		}
		if c := e.GetContainer(); e.GetType() != eventbus.ContainerFailed || c.GetBuildId() != "b_1" || c.GetReason() != "build" || c.GetWorkflowId() != "run" ||
			e.GetId() != c.GetRequestId()+".container.failed" {
			a.t.Errorf("the event is %v", e)
		}
		a.got[e.GetContainer().GetRequestId()] = true
		_ = m.Ack()
	}
	return slices.Sorted(maps.Keys(a.got))
}

// wants waits until exactly these requests have had an event.
func (a *announcer) wants(want ...string) {
	a.t.Helper()
	testkit.Until(a.t, "events", func() error {
		if got := a.read(); !slices.Equal(got, want) {
			return fmt.Errorf("there are events of %q, want %q", got, want)
		}
		return nil
	})
}

// handled waits until the event of the build is handled for good.
func (a *announcer) handled() {
	a.t.Helper()
	testkit.Until(a.t, "the event to be acknowledged", func() error {
		c, err := a.js.Consumer(a.t.Context(), eventbus.StreamName, eventbus.ContainerConsumer().Config.Durable)
		if err != nil {
			return err
		}
		if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
			return fmt.Errorf("%d events wait, %d are being handled", info.NumPending, info.NumAckPending)
		}
		return nil
	})
}

// TestContainersAreAnnounced checks that each request that waited for a build gets an event, also
// one that is stored after the end of the build, and if NATS stops before that.
func TestContainersAreAnnounced(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		a := newAnnouncer(t, db)
		a.requests(1, 0, "one")
		a.requests(2, 7, "two")
		a.ended(64 * time.Second)
		a.wants("one", "two")
		a.nats.Stop()
		a.requests(3, 0, "late")
		a.nats.Start()
		a.wants("late", "one", "two")
		a.sleep(2 * time.Second)
		a.requests(4, 0, "later") // the build had ended more than a minute before: it cannot have joined it
		a.handled()
		a.wants("late", "one", "two")
	})
}

// TestAnnouncementsAreBounded checks the limits of events of a build: of a user in a workspace, and
// of all requests.
func TestAnnouncementsAreBounded(t *testing.T) {
	t.Parallel()
	a := newAnnouncer(t, testkit.SQLite(t))
	const more = 50
	a.requests(1, 0, ids("a", limits.EventRequests)...)
	a.requests(2, 0, ids("b", more)...) // beyond the limit of the build
	a.requests(1, 7, ids("A", more)...) // the same user in a workspace
	a.sleep(66 * time.Second)
	a.ended(66 * time.Second)
	const want = more + limits.EventRequestsUser
	testkit.Until(t, "events", func() error {
		if n := len(a.read()); n < want {
			return fmt.Errorf("there are %d of %d", n, want)
		}
		return nil
	})
	a.handled()
	users := map[string]int{}
	for _, id := range a.read() {
		users[strings.TrimRight(id, "0123456789")]++
	}
	if len(users) != 2 || users["A"] != more || users["a"] != limits.EventRequestsUser {
		t.Errorf("events by user and workspace: %v, want %d and %d", users, more, limits.EventRequestsUser)
	}
}

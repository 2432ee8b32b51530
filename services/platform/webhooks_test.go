package platform_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A settableClock may be read and set concurrently.
type settableClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *settableClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *settableClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A hookWorld is a world whose platform sends messages.
type hookWorld struct {
	*world
	clock *settableClock
	js    jetstream.JetStream
	// spare is a webhook of another user without messages, which exists after the first call of
	// pass.
	spare string
	stop  func()
	// metrics has the metrics of the platform.
	metrics *prometheus.Registry
}

func newHookWorld(t *testing.T, db *sqldb.DB, receivers http.RoundTripper) *hookWorld {
	t.Helper()
	w := &hookWorld{clock: &settableClock{now: time.Now().Truncate(time.Microsecond)}, metrics: prometheus.NewRegistry()}
	d := deps(t, db)
	d.Now, d.Events, d.Receivers, d.Log, d.Version = w.clock.Now, testkit.NATS(t), receivers, testkit.Log(t), "1.2.3"
	d.Metrics = w.metrics
	w.world = newWorldWith(t, d, nil)
	js, err := jetstream.New(d.Events)
	if err != nil {
		t.Fatal(err)
	}
	w.js = js
	if err := bus.CreateStreams(t.Context(), js, eventbus.Stream()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.service.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	testkit.Until(t, "the consumer", func() error {
		_, err := js.Consumer(t.Context(), eventbus.StreamName, "webhooks")
		return err
	})
	return w
}

// pass adds d to the clock, and makes the platform look for messages that are due then. Otherwise
// it would do so within two seconds. It looks after each change of a URL.
func (w *hookWorld) pass(d time.Duration) {
	w.t.Helper()
	url := "https://spare.example/" + w.clock.Now().Format(time.RFC3339Nano)
	w.clock.add(d)
	if w.spare == "" {
		res := must(w.client.CreateWebhook(w.as("stranger"), &platformv1.CreateWebhookRequest{Webhook: &platformv1.WebhookSpec{Url: "https://spare.example", Events: []string{"webhook.disabled"}}}))(w.t)
		w.spare = res.GetWebhook().GetId()
	}
	must(w.client.UpdateWebhook(w.as("stranger"), &platformv1.UpdateWebhookRequest{WebhookId: w.spare, Change: &platformv1.WebhookChange{Url: &url}}))(w.t)
}

// hook creates a webhook; workspace 0 is the personal one.
func (w *hookWorld) hook(user string, workspace int64, r *testkit.HookReceiver, events ...string) string {
	w.t.Helper()
	res := must(w.client.CreateWebhook(w.as(user), &platformv1.CreateWebhookRequest{WorkspaceId: &workspace, Webhook: &platformv1.WebhookSpec{Url: r.URL + "/path?key=1", Events: events}}))(w.t)
	r.Verify(res.GetSecret())
	return res.GetWebhook().GetId()
}

// happens publishes an event of a build.
func (w *hookWorld) happens(user string, workspace int64, kind, build string) {
	w.t.Helper()
	w.clock.add(time.Microsecond) // two events never happen at the same time
	e := &eventsv1.Event{
		Id: build + "." + kind, Type: kind, Time: timestamppb.New(w.clock.Now()), Endpoint: endpoint, UserId: w.ids[user], WorkspaceId: workspace,
		Data: &eventsv1.Event_Build{Build: &eventsv1.BuildEvent{BuildId: build, Engine: "conda"}},
	}
	if err := eventbus.Publish(w.t.Context(), w.js, eventbus.Builds, e); err != nil {
		w.t.Fatal(err)
	}
}

// handled waits until the platform has handled all events that were published. A consumer's number of
// pending events is not sufficient: the server tells the consumer after it has confirmed an event.
func (w *hookWorld) handled() {
	w.t.Helper()
	testkit.Until(w.t, "the events", func() error {
		stream, err := w.js.Stream(w.t.Context(), eventbus.StreamName)
		if err != nil {
			return err
		}
		c, err := stream.Consumer(w.t.Context(), "webhooks")
		if err != nil {
			return err
		}
		published, handled := stream.CachedInfo().State.LastSeq, c.CachedInfo().AckFloor.Stream
		if handled < published {
			err = fmt.Errorf("%d of %d events are handled", handled, published)
		}
		return err
	})
}

func (w *hookWorld) describe(user string, workspace int64, id string) *platformv1.Webhook {
	w.t.Helper()
	return must(w.client.DescribeWebhook(w.as(user), &platformv1.DescribeWebhookRequest{WebhookId: id, WorkspaceId: &workspace}))(w.t).GetWebhook()
}

func (w *hookWorld) deliveries(user string, workspace int64, id, status string) []*platformv1.Delivery {
	w.t.Helper()
	return must(w.client.ListDeliveries(w.as(user), &platformv1.ListDeliveriesRequest{WebhookId: id, WorkspaceId: &workspace, Status: status}))(w.t).GetDeliveries()
}

// TestWebhooks checks which webhooks get an event, and the message that they get.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newHookWorld(t, db, http.DefaultTransport)
		team, failures, own, other := testkit.NewHookReceiver(t), testkit.NewHookReceiver(t), testkit.NewHookReceiver(t), testkit.NewHookReceiver(t)
		id := w.hook("maintain", w.ws, team)
		w.hook("maintain", w.ws, failures, "build.failed", "webhook.*")
		w.hook("launch", 0, own, "build.*")
		w.hook("stranger", 0, other)
		w.happens("launch", w.ws, "build.started", "b_1")
		w.happens("launch", w.ws, "build.failed", "b_1")
		w.happens("launch", 0, "build.succeeded", "b_2")
		w.happens("launch", 0, "build.succeeded", "b_2")
		team.Await("build.started b_1", "build.failed b_1")
		failures.Await("build.failed b_1")
		own.Await("build.succeeded b_2")
		must(w.client.TestWebhook(w.as("maintain"), &platformv1.TestWebhookRequest{WebhookId: id, WorkspaceId: &w.ws}))(t)
		team.Await("build.started b_1", "build.failed b_1", "webhook.test "+id)
		if got, _ := other.Got(); len(got) != 0 {
			t.Errorf("a stranger got %v", got)
		}

		e, headers := own.Last()
		if diff := cmp.Diff([]string{"1.0", "b_2.build.succeeded", "https://page.example", "dev.slipway.build.succeeded", "b_2", "application/json"},
			[]string{e.SpecVersion(), e.ID(), e.Source(), e.Type(), e.Subject(), e.DataContentType()}); diff != "" {
			t.Error(diff)
		}
		if want := `{"buildId":"b_2","engine":"conda","detailsUri":"https://page.example/view/builds/b_2"}`; string(e.Data()) != want {
			t.Errorf("the data is %s, want %s", e.Data(), want)
		}
		if headers.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || headers.Get("User-Agent") != "slipway/1.2.3" {
			t.Errorf("headers: %v", headers)
		}
		var list []*platformv1.Delivery
		testkit.Until(t, "three deliveries", func() error {
			if list = w.deliveries("maintain", w.ws, id, "DELIVERED"); len(list) != 3 {
				return fmt.Errorf("the deliveries are %v", list)
			}
			return nil
		})
		if list[0].GetAttempts() != 1 || list[0].GetResponse().GetValue() != http.StatusOK || list[0].GetProblem() != nil || list[0].GetNextAttempt() != nil {
			t.Errorf("the deliveries are %v", list)
		}
		one := must(w.client.DescribeDelivery(w.as("maintain"), &platformv1.DescribeDeliveryRequest{WebhookId: id, DeliveryId: list[0].GetId(), WorkspaceId: &w.ws}))(t)
		if !strings.Contains(one.GetBody(), `"specversion":"1.0"`) {
			t.Errorf("the body is %s", one.GetBody())
		}
	})
}

// asAdministrator returns a context with the access token of an administrator.
func (w *world) asAdministrator() context.Context {
	w.t.Helper()
	if err := w.service.SetAdministrator(w.t.Context(), "boss", true); err != nil {
		w.t.Fatal(err)
	}
	return w.as("boss")
}

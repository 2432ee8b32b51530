package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/testkit"
)

// TestUnreadMessages measures the messages of consumers that handle none, some and all of them.
func TestUnreadMessages(t *testing.T) {
	t.Parallel()
	nc := testkit.NATS(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	reg := prometheus.NewRegistry()
	reg.MustRegister(newUnreadMetrics(js))
	values := []string{"slipway_nats_unread_messages", "slipway_nats_unread_age_seconds"}
	if n, err := testutil.GatherAndCount(reg, values...); n != 0 || err != nil {
		t.Errorf("without streams there are %d values, %v", n, err)
	}
	if err := bus.CreateStreams(ctx, js, eventbus.Stream(), metricsbus.Stream()); err != nil {
		t.Fatal(err)
	}
	consumers := map[string]jetstream.Consumer{}
	for _, c := range []bus.Consumer{eventbus.WebhookConsumer(), eventbus.ContainerConsumer(), metricsbus.Consumer()} {
		made, err := js.CreateOrUpdateConsumer(ctx, c.Stream, c.Config)
		if err != nil {
			t.Fatal(err)
		}
		consumers[c.Config.Durable] = made
	}
	want := func(counts map[string]int) {
		t.Helper()
		var text strings.Builder
		for _, name := range []string{"container", "metrics", "webhooks"} {
			fmt.Fprintf(&text, "slipway_nats_unread_messages{consumer=%q} %d\n", name, counts[name])
		}
		head := "# HELP slipway_nats_unread_messages Messages of NATS that a consumer has not handled yet. All replicas report the same value: use max, not sum.\n# TYPE slipway_nats_unread_messages gauge\n"
		testkit.Until(t, "the counts", func() error {
			return testutil.GatherAndCompare(reg, strings.NewReader(head+text.String()), "slipway_nats_unread_messages")
		})
	}
	want(nil)
	for n, subject := range []string{eventbus.Builds, eventbus.Builds, eventbus.Containers} {
		if err := eventbus.Publish(ctx, js, subject, &eventsv1.Event{Id: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	want(map[string]int{"container": 2, "webhooks": 3})
	// A message that was delivered and not acknowledged waits still.
	handle(ctx, t, consumers["container"], func(m jetstream.Msg) error { return m.NakWithDelay(time.Hour) })
	handle(ctx, t, consumers["webhooks"], jetstream.Msg.Ack)
	want(map[string]int{"container": 2, "webhooks": 2})
	for _, c := range []struct {
		of     bus.Consumer
		oldest uint64
	}{{eventbus.ContainerConsumer(), 1}, {eventbus.WebhookConsumer(), 2}} {
		stream, err := js.Stream(ctx, c.of.Stream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetMsg(ctx, c.oldest)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the age of "+c.of.Config.Durable, func() error {
			before := time.Now()
			got, err := backlog(ctx, js, c.of)
			if low := before.Sub(m.Time); err != nil || got.Age < low-time.Second || got.Age > low+time.Second || got.Age == 0 {
				return fmt.Errorf("the oldest message of %s has the age %v instead of %v, %w", c.of.Config.Durable, got.Age, low, err)
			}
			return nil
		})
	}
	handle(ctx, t, consumers["container"], jetstream.Msg.Ack)
	handle(ctx, t, consumers["webhooks"], jetstream.Msg.Ack)
	handle(ctx, t, consumers["webhooks"], jetstream.Msg.Ack)
	want(map[string]int{"container": 1})
	nc.Close()
	if n, err := testutil.GatherAndCount(reg, values...); n != 0 || err != nil {
		t.Errorf("without a connection there are %d values, %v", n, err)
	}
}

// handle fetches the next message of a consumer.
func handle(ctx context.Context, t *testing.T, c jetstream.Consumer, act func(jetstream.Msg) error) {
	t.Helper()
	m, err := c.Next(jetstream.FetchContext(ctx))
	if err == nil {
		err = act(m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnreadFailures checks that a backlog which cannot be read is an error and is counted, unlike
// a consumer that does not exist, and that the other backlogs are returned.
func TestUnreadFailures(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{
			{Username: "all", Password: "all"},
			{Username: "some", Password: "some", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.INFO." + metricsbus.Consumer().Stream + ".*"}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	connect := func(user string) jetstream.JetStream {
		nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(user, user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	all, some := connect("all"), connect("some")
	ctx := t.Context()
	if err := bus.CreateStreams(ctx, all, eventbus.Stream(), metricsbus.Stream()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []bus.Consumer{eventbus.WebhookConsumer(), metricsbus.Consumer()} {
		if _, err := all.CreateOrUpdateConsumer(ctx, c.Stream, c.Config); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Backlogs(ctx, all); len(got) != 2 || err != nil {
		t.Errorf("all rights: %v, %v", got, err)
	}
	reg, m := prometheus.NewRegistry(), newUnreadMetrics(some)
	reg.MustRegister(m)
	if n, err := testutil.GatherAndCount(reg, "slipway_nats_unread_messages"); n != 1 || err != nil {
		t.Errorf("there are %d values, %v", n, err)
	}
	if n := testutil.ToFloat64(m.failures); n != 1 {
		t.Errorf("%v failures were counted", n)
	}
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if got, err := Backlogs(limited, some); len(got) != 1 || got[0].Consumer != "webhooks" || err == nil || !strings.Contains(err.Error(), "consumer metrics") {
		t.Errorf("without the right: %v, %v", got, err)
	}
}

// TestAge checks the age of a message with and without the time of the server.
func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		stored, reported time.Time
		want             time.Duration
	}{
		{now.Add(-time.Hour), now.Add(time.Minute), time.Hour + time.Minute},
		{now.Add(-time.Hour), time.Time{}, time.Hour},
		{now.Add(time.Second), now, 0},
	} {
		if got := age(c.stored, c.reported, now); got != c.want {
			t.Errorf("%v reported at %v: %v, want %v", c.stored, c.reported, got, c.want)
		}
	}
}

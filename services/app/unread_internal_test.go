package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
	reg.MustRegister(&unread{js})
	if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
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
	if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
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

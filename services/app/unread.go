package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/bus/metricsbus"
)

// unread exports the messages that the consumers of events have not handled yet, when scraped.
// Events of builds that a consumer does not read are lost after a week.
type unread struct{ js jetstream.JetStream }

//nolint:gochecknoglobals // descriptions, never changed
var (
	descUnread    = prometheus.NewDesc("slipway_nats_unread_messages", "Messages of NATS that a consumer has not handled yet. All replicas report the same value: use max, not sum.", []string{"consumer"}, nil)
	descUnreadAge = prometheus.NewDesc("slipway_nats_unread_age_seconds", "Age of the oldest message that a consumer has not handled yet; 0 when none waits. All replicas report the same value.", []string{"consumer"}, nil)
)

// Describe implements prometheus.Collector.
func (u *unread) Describe(ch chan<- *prometheus.Desc) {
	ch <- descUnread
	ch <- descUnreadAge
}

// Collect implements prometheus.Collector. There are no values without a connection, and none of
// consumers that do not exist, because their role has never run.
func (u *unread) Collect(ch chan<- prometheus.Metric) {
	if !u.js.Conn().IsConnected() { // the requests would wait
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, c := range []bus.Consumer{eventbus.WebhookConsumer(), eventbus.ContainerConsumer(), metricsbus.Consumer()} {
		n, age, err := backlog(ctx, u.js, c)
		if err != nil {
			continue
		}
		ch <- prometheus.MustNewConstMetric(descUnread, prometheus.GaugeValue, float64(n), c.Config.Durable)
		ch <- prometheus.MustNewConstMetric(descUnreadAge, prometheus.GaugeValue, age.Seconds(), c.Config.Durable)
	}
}

// backlog returns how many messages a consumer has not handled yet, and the age of the oldest one.
func backlog(ctx context.Context, js jetstream.JetStream, c bus.Consumer) (n uint64, age time.Duration, err error) {
	stream, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return 0, 0, err
	}
	consumer, err := stream.Consumer(ctx, c.Config.Durable)
	if err != nil {
		return 0, 0, err
	}
	info := consumer.CachedInfo() // as of the call before
	n = info.NumPending + uint64(info.NumAckPending)
	if n == 0 {
		return 0, 0, nil
	}
	m, err := stream.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(cmp.Or(c.Config.FilterSubject, ">")))
	if errors.Is(err, jetstream.ErrMsgNotFound) { // handled meanwhile
		return n, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return n, max(info.TimeStamp.Sub(m.Time), 0), nil
}

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
	for _, b := range Backlogs(ctx, u.js) {
		ch <- prometheus.MustNewConstMetric(descUnread, prometheus.GaugeValue, float64(b.Messages), b.Consumer)
		ch <- prometheus.MustNewConstMetric(descUnreadAge, prometheus.GaugeValue, b.Age.Seconds(), b.Consumer)
	}
}

// A Backlog is what a consumer of events has not handled yet.
type Backlog struct {
	Consumer string
	Messages uint64
	Age      time.Duration // of the oldest message; 0 without messages
}

// Backlogs returns the backlogs of the consumers of events that exist and can be measured.
func Backlogs(ctx context.Context, js jetstream.JetStream) (all []Backlog) {
	for _, c := range []bus.Consumer{eventbus.WebhookConsumer(), eventbus.ContainerConsumer(), metricsbus.Consumer()} {
		if b, err := backlog(ctx, js, c); err == nil {
			all = append(all, b)
		}
	}
	return all
}

func backlog(ctx context.Context, js jetstream.JetStream, c bus.Consumer) (Backlog, error) {
	b := Backlog{Consumer: c.Config.Durable}
	stream, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return b, err
	}
	consumer, err := stream.Consumer(ctx, c.Config.Durable)
	if err != nil {
		return b, err
	}
	info := consumer.CachedInfo() // as of the call before
	b.Messages = info.NumPending + uint64(info.NumAckPending)
	if b.Messages == 0 {
		return b, nil
	}
	m, err := stream.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(cmp.Or(c.Config.FilterSubject, ">")))
	if errors.Is(err, jetstream.ErrMsgNotFound) { // handled meanwhile
		return b, nil
	}
	if err != nil {
		return b, err
	}
	b.Age = max(info.TimeStamp.Sub(m.Time), 0)
	return b, nil
}

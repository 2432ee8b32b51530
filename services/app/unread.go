package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/bus/metricsbus"
)

// unreadMetrics exports the messages that the consumers of events have not handled yet, when scraped.
// Events of builds that a consumer does not read are lost after a week.
type unreadMetrics struct {
	js       jetstream.JetStream
	failures prometheus.Counter
}

func newUnreadMetrics(js jetstream.JetStream) *unreadMetrics {
	return &unreadMetrics{js: js, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_nats_unread_failures_total",
		Help: "Scrapes at which slipway_nats_unread_messages and slipway_nats_unread_age_seconds are missing for a consumer, because NATS did not respond in time or denied the request.",
	})}
}

//nolint:gochecknoglobals // descriptions, never changed
var (
	descUnread    = prometheus.NewDesc("slipway_nats_unread_messages", "Messages of NATS that a consumer has not handled yet. All replicas report the same value: use max, not sum.", []string{"consumer"}, nil)
	descUnreadAge = prometheus.NewDesc("slipway_nats_unread_age_seconds", "Age of the oldest message that a consumer has not handled yet; 0 without such messages. The consumer container handles the end of a build only after 65 seconds. All replicas report the same value.", []string{"consumer"}, nil)
)

// Describe implements prometheus.Collector.
func (u *unreadMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descUnread
	ch <- descUnreadAge
	u.failures.Describe(ch)
}

// Collect implements prometheus.Collector. There are no values without a connection, and none of
// consumers that do not exist, because their role has never run.
func (u *unreadMetrics) Collect(ch chan<- prometheus.Metric) {
	if u.js.Conn().IsConnected() { // otherwise, the requests would wait
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		backlogs, err := Backlogs(ctx, u.js)
		if err != nil {
			u.failures.Inc()
		}
		for _, b := range backlogs {
			ch <- prometheus.MustNewConstMetric(descUnread, prometheus.GaugeValue, float64(b.Messages), b.Consumer)
			ch <- prometheus.MustNewConstMetric(descUnreadAge, prometheus.GaugeValue, b.Age.Seconds(), b.Consumer)
		}
	}
	u.failures.Collect(ch)
}

// A Backlog is the messages that a consumer of events has not handled yet.
type Backlog struct {
	Stream, Consumer string
	Messages         uint64
	Age              time.Duration // of the oldest message; 0 without messages
}

// Backlogs returns the backlogs of the consumers of events. Consumers that do not exist are left
// out. If a backlog cannot be read, Backlogs returns the others with an error.
func Backlogs(ctx context.Context, js jetstream.JetStream) ([]Backlog, error) {
	consumers := []bus.Consumer{eventbus.WebhookConsumer(), eventbus.ContainerConsumer(), metricsbus.Consumer()}
	backlogs, errs := make([]Backlog, len(consumers)), make([]error, len(consumers))
	var wg sync.WaitGroup
	for i, c := range consumers {
		wg.Go(func() { backlogs[i], errs[i] = backlog(ctx, js, c) })
	}
	wg.Wait()
	var existing []Backlog
	for i, c := range consumers {
		switch err := errs[i]; {
		case err == nil:
			existing = append(existing, backlogs[i])
		case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound):
			errs[i] = nil
		default:
			errs[i] = fmt.Errorf("reading the backlog of the consumer %s: %w", c.Config.Durable, err)
		}
	}
	return existing, errors.Join(errs...)
}

func backlog(ctx context.Context, js jetstream.JetStream, c bus.Consumer) (Backlog, error) {
	b := Backlog{Stream: c.Stream, Consumer: c.Config.Durable}
	consumer, err := js.Consumer(ctx, c.Stream, c.Config.Durable)
	if err != nil {
		return b, err
	}
	info := consumer.CachedInfo() // as of the call before
	b.Messages = info.NumPending + uint64(info.NumAckPending)
	if b.Messages == 0 {
		return b, nil
	}
	stream, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return b, err
	}
	m, err := stream.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(cmp.Or(c.Config.FilterSubject, ">")))
	if errors.Is(err, jetstream.ErrMsgNotFound) { // handled meanwhile
		return b, nil
	}
	if err != nil {
		return b, err
	}
	b.Age = age(m.Time, info.TimeStamp, time.Now())
	return b, nil
}

// age returns the age of a message that NATS stored at a time. reported is the time of the server,
// which is zero for servers older than 2.10; the clock of this process then replaces it.
func age(stored, reported, now time.Time) time.Duration {
	if reported.IsZero() {
		reported = now
	}
	return max(reported.Sub(stored), 0)
}

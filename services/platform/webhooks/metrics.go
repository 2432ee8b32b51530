package webhooks

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/sqldb"
)

// scrapeTime is the timeout of a query for metrics.
const scrapeTime = 5 * time.Second

// newAttempts returns the counter of attempts.
func newAttempts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_webhook_attempts_total", Help: "Messages sent to receivers of webhooks, by result: accepted, rejected or unreachable.",
	}, []string{"result"})
}

// result returns the value of the label for an attempt.
func (a attempt) result() string {
	switch {
	case a.problem == "":
		return "accepted"
	case a.response != 0:
		return "rejected"
	}
	return "unreachable"
}

// rows exports the numbers of webhooks and of messages that wait. It queries SQL when scraped, so
// that all replicas report the same.
type rows struct{ *Service }

//nolint:gochecknoglobals // descriptions, never changed
var (
	descHooks = prometheus.NewDesc("slipway_webhooks",
		"Webhooks by state: enabled, failing (the last message was not accepted), stopped (disabled by the service) or disabled (by a user). All replicas report the same value: use max, not sum.",
		[]string{"state"}, nil)
	descPending = prometheus.NewDesc("slipway_webhook_deliveries_waiting",
		"Messages of webhooks that wait for their first or next attempt. All replicas report the same value.", nil, nil)
	descDue = prometheus.NewDesc("slipway_webhook_deliveries_late_seconds",
		"How long the message that waits longest should have been sent, without those of failing and disabled webhooks; 0 when none waits. All replicas report the same value.", nil, nil)
)

// Describe implements prometheus.Collector.
func (rows) Describe(ch chan<- *prometheus.Desc) {
	ch <- descHooks
	ch <- descPending
	ch <- descDue
}

// Collect implements prometheus.Collector. There are no values while the database is unavailable.
func (m rows) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	c, err := m.store.count(ctx)
	if err != nil {
		m.deps.Log.WarnContext(ctx, "Webhooks cannot be counted", "err", err)
		return
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	for state, n := range map[string]int{"enabled": c.enabled, "failing": c.failing, "stopped": c.stopped, "disabled": c.disabled} {
		gauge(descHooks, float64(n), state)
	}
	late := time.Duration(0)
	if !c.due.IsZero() {
		late = max(m.deps.Now().Sub(c.due), 0)
	}
	gauge(descPending, float64(c.pending))
	gauge(descDue, late.Seconds())
}

// counts are the numbers of webhooks by state and of pending deliveries, and when the first
// delivery of a webhook that does not fail is or was due; zero if none is pending.
type counts struct {
	enabled, failing, stopped, disabled int
	pending                             int
	due                                 time.Time
}

// count counts webhooks and deliveries.
func (s store) count(ctx context.Context) (c counts, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT coalesce(sum(CASE WHEN disabled_at = 0 AND failures = 0 THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN disabled_at = 0 AND failures > 0 THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN disabled_at > 0 AND disabled_reason <> '' THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN disabled_at > 0 AND disabled_reason = '' THEN 1 ELSE 0 END), 0)
		FROM platform_webhooks`).Scan(&c.enabled, &c.failing, &c.stopped, &c.disabled)
	if err != nil {
		return c, s.db.Wrap(err)
	}
	err = s.db.QueryRowContext(ctx, `
		SELECT count(*), coalesce(min(CASE WHEN h.disabled_at = 0 AND h.failures = 0
			AND NOT EXISTS (SELECT 1 FROM platform_users u WHERE u.id = h.user_id AND u.disabled_at > 0) THEN d.next_at END), 0)
		FROM platform_deliveries d JOIN platform_webhooks h ON h.id = d.webhook_id WHERE d.state = 'PENDING'`).Scan(&c.pending, sqldb.ScanTime(&c.due))
	return c, s.db.Wrap(err)
}

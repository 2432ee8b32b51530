package build

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/sqldb"
)

// backlog says how many builds there are that have not ended, when it is scraped:
// it reads SQL, so each replica says the same.
type backlog struct{ s *Service }

// scrapeTime is how long the database may take for it.
const scrapeTime = 2 * time.Second

//nolint:gochecknoglobals // descriptions, never changed
var (
	descDepth = prometheus.NewDesc("slipway_builds_unfinished",
		"Builds that have not ended, by state. Every replica of the build role says the same: take the largest, not the sum.", []string{"state"}, nil)
	descAge = prometheus.NewDesc("slipway_build_queue_age_seconds",
		"How long the build has waited that waits longest for a worker; 0 when none does. Every replica says the same.", nil, nil)
	descSlots = prometheus.NewDesc("slipway_build_worker_slots",
		"Builds that the workers that live can run at a time, as this replica has heard.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *backlog) Describe(ch chan<- *prometheus.Desc) {
	ch <- descDepth
	ch <- descAge
	ch <- descSlots
}

// Collect implements prometheus.Collector. Without the database it says only what
// it knows.
func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	slots := 0
	for _, w := range b.s.workers.live() {
		if w.what.GetProblem() == "" {
			slots += int(w.what.GetSlots())
		}
	}
	gauge(descSlots, float64(slots))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	u, err := b.s.store.unfinished(ctx)
	if err != nil {
		return // the database's own state says why
	}
	gauge(descDepth, float64(u.queued), "queued")
	gauge(descDepth, float64(u.running), "running")
	age := 0.0
	if u.queued > 0 {
		age = max(0, b.s.deps.Now().Sub(u.oldest).Seconds())
	}
	gauge(descAge, age)
}

// unfinished is how many builds wait and run, and since when the oldest waits.
type unfinished struct {
	queued, running int64
	oldest          time.Time
}

func (s store) unfinished(ctx context.Context) (u unfinished, err error) {
	var oldest int64
	err = s.db.QueryRowContext(ctx, `
		SELECT COALESCE(SUM(CASE WHEN started_at = 0 THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN started_at > 0 THEN 1 ELSE 0 END), 0),
			COALESCE(MIN(CASE WHEN started_at = 0 THEN created_at END), 0)
		FROM build_builds WHERE state = 'PENDING' AND engine <> $1`, engineIndex).Scan(&u.queued, &u.running, &oldest)
	u.oldest = sqldb.Time(oldest)
	return u, err
}

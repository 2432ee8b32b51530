package app

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/disk"
	"slipway.dev/services/internal/sqldb"
)

// collected records registered collectors, for the reference page.
type collected struct {
	*prometheus.Registry
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (c *collected) Register(m prometheus.Collector) error {
	c.all = append(c.all, m)
	return c.Registry.Register(m)
}

// MustRegister implements prometheus.Registerer.
func (c *collected) MustRegister(all ...prometheus.Collector) {
	c.all = append(c.all, all...)
	c.Registry.MustRegister(all...)
}

// dependencies exports the state of everything in /readyz when scraped.
type dependencies struct{ app *App }

//nolint:gochecknoglobals // a description, never changed
var descUp = prometheus.NewDesc("slipway_dependency_up",
	"Whether a dependency of this process works: 1 or 0, by its name in /readyz.", []string{"dependency", "required"}, nil)

// Describe implements prometheus.Collector.
func (d *dependencies) Describe(ch chan<- *prometheus.Desc) { ch <- descUp }

// Collect implements prometheus.Collector.
func (d *dependencies) Collect(ch chan<- prometheus.Metric) {
	checks := d.app.checks()
	for i, s := range states(context.Background(), checks) {
		up, required := 0.0, "false"
		if s.OK {
			up = 1
		}
		if s.Required {
			required = "true"
		}
		ch <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, up, checks[i].name, required)
	}
}

// diskMetrics exports the space of the watched disks when scraped.
type diskMetrics struct{ watch *disk.Watch }

//nolint:gochecknoglobals // descriptions, never changed
var (
	descDiskFree = prometheus.NewDesc("slipway_disk_free_bytes", "Space that this process may still write to the disk of a folder.", []string{"folder"}, nil)
	descDiskSize = prometheus.NewDesc("slipway_disk_size_bytes", "Size of the disk of a folder, without what is reserved for root.", []string{"folder"}, nil)
)

// Describe implements prometheus.Collector.
func (d *diskMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descDiskFree
	ch <- descDiskSize
}

// Collect implements prometheus.Collector. A disk that cannot be measured has no value, and is
// reported by the check "disk".
func (d *diskMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, f := range d.watch.Folders() {
		space, err := d.watch.Space(f)
		if err != nil {
			continue
		}
		ch <- prometheus.MustNewConstMetric(descDiskFree, prometheus.GaugeValue, float64(space.Free), f.Name)
		ch <- prometheus.MustNewConstMetric(descDiskSize, prometheus.GaugeValue, float64(space.Size), f.Name)
	}
}

// databaseSize exports the size of the database when scraped.
type databaseSize struct{ db *sqldb.DB }

//nolint:gochecknoglobals // a description, never changed
var descDatabase = prometheus.NewDesc("slipway_database_bytes",
	"Size of the database, of SQLite with its write-ahead log. All processes of one database report the same value: use max, not sum.", nil, nil)

// Describe implements prometheus.Collector.
func (d *databaseSize) Describe(ch chan<- *prometheus.Desc) { ch <- descDatabase }

// Collect implements prometheus.Collector. There is no value while the database is unavailable.
func (d *databaseSize) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if size, err := d.db.Size(ctx); err == nil {
		ch <- prometheus.MustNewConstMetric(descDatabase, prometheus.GaugeValue, float64(size))
	}
}

// busStorage exports the space of the streams of NATS when scraped.
type busStorage struct{ js jetstream.JetStream }

//nolint:gochecknoglobals // descriptions, never changed
var (
	descBusUsed  = prometheus.NewDesc("slipway_nats_storage_bytes", "Space on the disks of NATS that the streams of its account use.", nil, nil)
	descBusLimit = prometheus.NewDesc("slipway_nats_storage_limit_bytes", "Space that the streams of the account may use; none if the account has no limit.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *busStorage) Describe(ch chan<- *prometheus.Desc) {
	ch <- descBusUsed
	ch <- descBusLimit
}

// Collect implements prometheus.Collector. Without a connection there are no values.
func (b *busStorage) Collect(ch chan<- prometheus.Metric) {
	used, limit, err := busSpace(context.Background(), b.js)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(descBusUsed, prometheus.GaugeValue, float64(used))
	if limit > 0 {
		ch <- prometheus.MustNewConstMetric(descBusLimit, prometheus.GaugeValue, float64(limit))
	}
}

// busSpace returns the space that the streams of an account use and may use, in bytes. Without
// a limit, limit is 0.
func busSpace(ctx context.Context, js jetstream.JetStream) (used, limit int64, err error) {
	if !js.Conn().IsConnected() { // the request would wait
		return 0, 0, nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return 0, 0, err
	}
	return int64(info.Store), max(info.Limits.MaxStore, 0), nil
}

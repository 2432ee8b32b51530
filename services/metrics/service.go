// Package metrics owns the usage counts: builds, pulls, and pulls of images with the layer of a
// file system client, by day and the domain of the user's e-mail address
// (gateway/contract/container-service.md#counts), and the reports of usage by day, user and
// workspace (gateway/contract/platform.md#usage), whose access rules and names are those of the
// platform service. Other services publish events on the bus
// (slipway.metrics.v1.Batch), so that no pull waits for this service. The counts are stored in
// the tables metrics_*. The stream METRICS_EVENTS, which this service creates, holds the events
// that have not been counted yet.
package metrics

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/metrics/migrations"
)

// Migrations returns the schema migrations of this service, for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// Deps are the dependencies of a Service.
type Deps struct {
	DB      *sqldb.DB
	Bus     *nats.Conn
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now returns the current time.
	Now func() time.Time
	// Accounts is the path of an htpasswd file with bcrypt hashes of the accounts that may read
	// counts; "" means none. Events are counted in any case.
	Accounts string
	// Platform identifies the administrator, who may also read counts, and users who may read
	// reports of usage; nil identifies no one.
	Platform Platform
	// Stores are the stores on the disk of this process; nil if other processes have them.
	Stores []Store
	// Servers are the database and NATS.
	Servers []Server
	// Health returns the state of this process within some seconds.
	Health func(context.Context) Health
	// Disks are the disks that this process stores data on; nil unless it runs all roles.
	Disks []Disk
}

// Service implements metricsv1.MetricsServiceServer and usagev1.UsageServiceServer. Create it with New, then call Run.
type Service struct {
	metricsv1.UnimplementedMetricsServiceServer
	usagev1.UnimplementedUsageServiceServer
	deps     Deps
	store    store
	bus      jetstream.JetStream
	accounts *htpasswd.Accounts
	counted  *prometheus.CounterVec
	repeated prometheus.Counter
	storage  measurement[*metricsv1.GetStorageResponse]
	health   measurement[Health]
	// reports limits concurrent reports of usage.
	reports *fairshare.Pool
}

// New returns a Service. The tables must exist; NATS may connect later.
func New(d Deps) (*Service, error) {
	accounts, err := htpasswd.Read(htpasswd.File{Path: d.Accounts, Calls: "Metrics", Account: "a metrics account"})
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(d.Bus)
	if err != nil {
		return nil, err
	}
	s := &Service{
		deps: d, store: store{d.DB}, bus: js, accounts: accounts, storage: newMeasurement[*metricsv1.GetStorageResponse](), health: newMeasurement[Health](),
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_metrics_events_total", Help: "Events counted, by metric.",
		}, []string{"metric"}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_metrics_repeated_total", Help: "Events that came again and were not counted twice.",
		}),
	}
	s.reports = fairshare.New(fairshare.Config{
		Name: "reports of usage", Capacity: limits.UsageReports, PerClient: limits.UsageReportsClient, MaxWaiting: limits.UsageReportsWaiting,
	})
	d.Metrics.MustRegister(s.counted, s.repeated)
	for _, m := range []metric{builds, buildSeconds, mirrors, pulls, filesystem} {
		s.counted.WithLabelValues(string(m)) // each is 0 until its first event, rather than absent
	}
	return s, nil
}

// Package metrics owns how much the service is used: builds, pulls, and pulls of
// images with a file system client's layer, by day and organisation
// (gateway/contract/container-service.md#counts). Other rooms say what happens on
// the bus (slipway.metrics.v1.Batch); nothing here is asked while somebody pulls.
// The truth is the tables metrics_*; the stream METRICS_EVENTS, which this room
// makes, holds what is not counted yet.
package metrics

import (
	"io/fs"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/htpasswd"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/metrics/migrations"
)

// Migrations are this room's changes of the schema, for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// Deps is what the service works with.
type Deps struct {
	DB      *sqldb.DB
	Bus     *nats.Conn
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Accounts is an htpasswd file with bcrypt hashes of those who may read counts;
	// "" is for none. Events are counted all the same.
	Accounts string
	// Platform knows its administrator, who may read counts too; nil knows nobody.
	Platform Platform
	// Stores are what this process keeps on disk; nil where others do.
	Stores []Store
}

// Service implements metricsv1.MetricsServiceServer. Make it with New, then Run
// it.
type Service struct {
	metricsv1.UnimplementedMetricsServiceServer
	deps     Deps
	store    store
	bus      jetstream.JetStream
	accounts *htpasswd.Accounts
	counted  *prometheus.CounterVec
	repeated prometheus.Counter
	storage  *memo.Memo[struct{}, *metricsv1.GetStorageResponse]
}

// New makes the service. The tables must be there; NATS may come later.
func New(d Deps) (*Service, error) {
	known, err := htpasswd.Read(htpasswd.File{Path: d.Accounts, Calls: "Metrics", Account: "a metrics account"})
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(d.Bus)
	if err != nil {
		return nil, err
	}
	s := &Service{
		deps: d, store: store{d.DB}, bus: js, accounts: known, storage: newStorage(),
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_metrics_events_total", Help: "Events counted, by metric.",
		}, []string{"metric"}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_metrics_repeated_total", Help: "Events that came again and were not counted twice.",
		}),
	}
	d.Metrics.MustRegister(s.counted, s.repeated)
	return s, nil
}

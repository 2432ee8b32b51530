// Package webhooks sends events to the addresses that users and workspaces have chosen. It
// stores each event of the bus as one delivery for each webhook that wants it, and attempts
// deliveries until the receiver accepts them or limits.WebhookRetryPeriod has passed, which
// disables the webhook. Messages follow CloudEvents 1.0 and Standard Webhooks
// (gateway/contract/platform.md#webhooks). It owns the tables platform_webhooks and
// platform_deliveries.
package webhooks

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/vault"
)

// Table is the table of webhooks. Its rows contain envelopes.
const Table = "platform_webhooks"

// Deps are the dependencies of a Service.
type Deps struct {
	DB *sqldb.DB
	// Bus is the connection on which events arrive. If it is nil, no webhooks can be created.
	Bus *nats.Conn
	// Transport connects to receivers. It must apply the egress rules.
	Transport http.RoundTripper
	// Keys encrypts secrets. If it is nil, no webhooks can be created.
	Keys *vault.Keys
	// Limiter limits the messages that a user may request; nil means no limit.
	Limiter *ratelimit.Limiter
	Audit   audit.Log
	// Endpoint and Aliases are the addresses of this platform, without a slash at the end. Events
	// of users of other platforms are ignored.
	Endpoint string
	Aliases  []string
	// Pages is the base address of the web pages, without a slash at the end. It is the source of
	// all events.
	Pages string
	// Version is the version of the program.
	Version string
	// Metrics registers the metrics; nil discards them.
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for webhooks. Create it with New, then call Run.
type Service struct {
	deps     Deps
	store    store
	client   *http.Client
	slots    slots
	attempts *prometheus.CounterVec
	// sending is the outage of the database, for messages.
	sending retry.Outage
	// added wakes Run when a delivery may be due.
	added chan struct{}
}

// store accesses the tables of this package.
type store struct {
	db    *sqldb.DB
	audit audit.Log
}

// New returns a Service. The tables must exist.
func New(d Deps) *Service {
	s := &Service{
		deps: d, attempts: newAttempts(), store: store{d.DB, d.Audit}, slots: newSlots(), added: make(chan struct{}, 1),
		sending: retry.Outage{Log: d.Log, Fails: "Messages for webhooks cannot be read right now; retrying", Works: "Messages for webhooks are read again"},
		client: &http.Client{
			Transport: d.Transport, Timeout: limits.WebhookTime,
			// A receiver could redirect to any address, which the signature was not made for.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if d.Metrics != nil {
		d.Metrics.MustRegister(s.attempts, rows{s})
	}
	return s
}

// Run stores events of the bus as deliveries and sends them, until ctx ends. It returns at once
// without a bus.
func (s *Service) Run(ctx context.Context) error {
	if s.deps.Bus == nil {
		return nil
	}
	js, err := jetstream.New(s.deps.Bus)
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(ctx)
	}()
	s.receive(ctx, js)
	<-sent
	return nil
}

// Sweep deletes the deliveries that ended before limits.DeliveriesKept.
func (s *Service) Sweep(ctx context.Context) error {
	return s.store.deleteDeliveries(ctx, s.deps.Now().Add(-limits.DeliveriesKept))
}

// check returns fault.Unsupported if no messages can be sent.
func (s *Service) check() error {
	if s.deps.Bus == nil {
		return fault.Unsupported.Newf("Webhooks are disabled: the platform has no nats_url")
	}
	return s.deps.Keys.Check()
}

// wake wakes Run.
func (s *Service) wake() {
	select {
	case s.added <- struct{}{}:
	default: // already awake
	}
}

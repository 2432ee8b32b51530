package registry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/spool"
)

const (
	// spoolLimit is how many bytes of uncounted pulls are kept, two million pulls
	// or so.
	spoolLimit = 64 << 20
	// gather keeps the messages few while there is much to count.
	gather = 250 * time.Millisecond
)

// counter counts pulls. A pull is written to disk before its answer ends, and
// published from there: it is counted once, whoever is killed meanwhile, and waits
// for nobody. nil counts nothing.
type counter struct {
	spool   *spool.Spool
	outbox  *metricsbus.Outbox
	prefix  string
	now     func() time.Time
	log     *slog.Logger
	lost    prometheus.Counter
	failing atomic.Bool
}

func newCounter(d Deps) (*counter, error) {
	if d.SpoolDir == "" {
		return nil, nil
	}
	s, err := spool.Open(spool.Options{Dir: d.SpoolDir, Limit: spoolLimit, Now: d.Now})
	if err != nil {
		return nil, err
	}
	outbox, err := metricsbus.NewOutbox(d.Bus, &pullQueue{spool: s}, metricsbus.Options{
		Name: "pulls", Log: d.Log, Wake: s.Wake(), Linger: gather,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c := &counter{spool: s, outbox: outbox, prefix: d.FilesystemPrefix, now: d.Now, log: d.Log,
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_registry_uncounted_pulls_total", Help: "Pulls that could not be written to the spool, and are not counted.",
		}),
	}
	d.Metrics.MustRegister(c.lost,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "slipway_registry_spool_bytes", Help: "What is kept on disk until it is counted.",
		}, func() float64 { return float64(s.Stats().Bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "slipway_registry_spool_waiting", Help: "Events on disk that wait to be published; a pull is one or two.",
		}, func() float64 { return float64(s.Stats().Waiting) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "slipway_registry_spool_dropped_total", Help: "Events that were dropped, the oldest first, as too many waited to be counted.",
		}, func() float64 { return float64(s.Stats().Dropped) }),
	)
	return c, nil
}

func (c *counter) close() error {
	if c == nil {
		return nil
	}
	return c.spool.Close()
}

// pull notes a pull. It cannot fail: a pull that cannot be noted goes on.
func (c *counter) pull(ctx context.Context, tok *resolvedToken) {
	if c == nil {
		return
	}
	err := c.spool.Append(c.events(tok)...)
	if err != nil {
		c.lost.Inc()
	}
	if failing := err != nil; c.failing.Swap(failing) != failing && failing {
		c.log.ErrorContext(ctx, "Pulls cannot be noted, and are not counted", "err", err)
	}
}

// events are what one pull counts as.
func (c *counter) events(tok *resolvedToken) [][]byte {
	e := &metricsv1.Event{Metric: metricsv1.Metric_METRIC_PULLS, Day: int32(c.now().Unix() / (24 * 60 * 60)), Org: tok.org}
	metrics := []metricsv1.Metric{metricsv1.Metric_METRIC_PULLS}
	if c.prefix != "" && tok.addsLayerUnder(c.prefix) {
		metrics = append(metrics, metricsv1.Metric_METRIC_FILESYSTEM)
	}
	var out [][]byte
	for _, e.Metric = range metrics {
		if raw, err := proto.Marshal(e); err == nil { // it always is
			out = append(out, raw)
		}
	}
	return out
}

// addsLayerUnder says whether a layer that the request added comes from a URL
// that begins so.
func (tok *resolvedToken) addsLayerUnder(prefix string) bool {
	for _, l := range tok.layers {
		if strings.HasPrefix(l.url, prefix) {
			return true
		}
	}
	return false
}

// run publishes what was noted, until ctx ends.
func (c *counter) run(ctx context.Context) { c.outbox.Run(ctx) }

// pullQueue is the spool as an outbox reads it.
type pullQueue struct {
	spool *spool.Spool
	last  spool.Batch // that Next returned
}

// Next implements metricsbus.Queue.
func (q *pullQueue) Next(_ context.Context, most int) (_ *metricsv1.Batch, err error) {
	if q.last, err = q.spool.Next(most); err != nil {
		return nil, err
	}
	batch := &metricsv1.Batch{Source: q.spool.ID(), First: q.last.First}
	for _, raw := range q.last.Records {
		e := &metricsv1.Event{}
		if err := proto.Unmarshal(raw, e); err != nil {
			e = &metricsv1.Event{} // it keeps its place; nothing is counted
		}
		batch.Events = append(batch.Events, e)
	}
	return batch, nil
}

// Published implements metricsbus.Queue.
func (q *pullQueue) Published(context.Context, *metricsv1.Batch) error {
	q.spool.Taken(q.last)
	return nil
}

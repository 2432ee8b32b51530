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
	// spoolLimit bounds the uncounted pulls on disk in bytes, about one million pulls.
	spoolLimit = 64 << 20
	// gather is how long events are collected into one message when there are many.
	gather = 250 * time.Millisecond
)

// A counter counts pulls. Each pull is written to disk before its response ends and
// published from there. So it is counted exactly once even if a process is killed, and it
// never waits for another service. A nil counter counts nothing.
type counter struct {
	spool  *spool.Spool
	outbox *metricsbus.Outbox
	prefix string
	// platform is the address of this platform, whose users pulls are counted for.
	platform string
	now      func() time.Time
	log      *slog.Logger
	lost     prometheus.Counter
	failing  atomic.Bool
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
	c := &counter{spool: s, outbox: outbox, prefix: d.FilesystemPrefix, platform: d.PlatformURL, now: d.Now, log: d.Log,
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_registry_uncounted_pulls_total", Help: "Pulls that could not be written to the spool, and are not counted.",
		}),
	}
	d.Metrics.MustRegister(c.lost,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "slipway_registry_spool_bytes", Help: "Size of the events on disk that are not counted yet.",
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

// pull records a pull. It never fails: a pull that cannot be recorded is served all the
// same.
func (c *counter) pull(ctx context.Context, tok *resolvedToken) {
	if c == nil {
		return
	}
	err := c.spool.Append(c.events(tok)...)
	if err != nil {
		c.lost.Inc()
	}
	if failing := err != nil; c.failing.Swap(failing) != failing && failing {
		c.log.ErrorContext(ctx, "Pulls cannot be written to the spool, and are not counted", "err", err)
	}
}

// events returns the events that one pull is counted as.
func (c *counter) events(tok *resolvedToken) [][]byte {
	e := metricsbus.NewEvent(metricsv1.Metric_METRIC_PULLS, c.now(), tok.owner, c.platform)
	metrics := []metricsv1.Metric{metricsv1.Metric_METRIC_PULLS}
	if c.prefix != "" && tok.addsLayerUnder(c.prefix) {
		metrics = append(metrics, metricsv1.Metric_METRIC_FILESYSTEM)
	}
	var out [][]byte
	for _, e.Metric = range metrics {
		if raw, err := proto.Marshal(e); err == nil { // always true
			out = append(out, raw)
		}
	}
	return out
}

// addsLayerUnder reports whether the request added a layer whose URL begins with prefix.
func (tok *resolvedToken) addsLayerUnder(prefix string) bool {
	for _, l := range tok.layers {
		if strings.HasPrefix(l.url, prefix) {
			return true
		}
	}
	return false
}

// run publishes recorded pulls until ctx ends.
func (c *counter) run(ctx context.Context) { c.outbox.Run(ctx) }

// pullQueue presents the spool as a queue for an outbox.
type pullQueue struct {
	spool *spool.Spool
	last  spool.Batch // the batch that Next returned
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
			e = &metricsv1.Event{} // counts nothing, and keeps its ordinal
		}
		batch.Events = append(batch.Events, e)
	}
	return batch, nil
}

// Published implements metricsbus.Queue.
func (q *pullQueue) Published(context.Context, *metricsv1.Batch) error {
	q.spool.Ack(q.last)
	return nil
}

package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/retry"
)

// sourceTTL is the time after which a source without events is deleted.
const sourceTTL = 366 * 24 * time.Hour

// Run counts the events that other services publish, until ctx is cancelled. It waits while NATS
// is unavailable.
func (s *Service) Run(ctx context.Context) error {
	retry.Forever(ctx, s.consume, func(err error) {
		s.deps.Log.WarnContext(ctx, "Events cannot be counted right now; retrying", "err", err)
	})
	return nil
}

func (s *Service) consume(ctx context.Context) error {
	if err := bus.CreateStreams(ctx, s.bus, metricsbus.Stream()); err != nil {
		return err
	}
	if err := s.store.deleteSources(ctx, s.deps.Now().Add(-sourceTTL)); err != nil {
		return fmt.Errorf("deleting old sources: %w", err)
	}
	return bus.Consume(ctx, s.bus, metricsbus.Consumer(), s.consumeBatch)
}

// consumeBatch counts a batch of events, and acknowledges it after the counts are committed.
func (s *Service) consumeBatch(ctx context.Context, m jetstream.Msg) {
	b := &metricsv1.Batch{}
	if err := proto.Unmarshal(m.Data(), b); err != nil || b.GetSource() == "" || b.GetFirst() < 1 {
		s.deps.Log.ErrorContext(ctx, "A batch of events is malformed and was dropped", "err", err)
		_ = m.Term() // a retry would fail as well
		return
	}
	ctx, cancel := context.WithTimeout(ctx, metricsbus.EventAckWait*8/10)
	defer cancel()
	if err := s.count(ctx, b); err != nil {
		s.deps.Log.WarnContext(ctx, "Events cannot be counted right now; retrying", "err", err)
		_ = m.NakWithDelay(time.Second)
		return
	}
	if err := m.DoubleAck(ctx); err != nil {
		s.deps.Log.DebugContext(ctx, "Acknowledging counted events failed; they will be delivered again and ignored", "err", err)
	}
}

// count counts the events of a batch that have not been counted yet. Sources number their events,
// so that repeated events are recognized.
func (s *Service) count(ctx context.Context, b *metricsv1.Batch) error {
	for {
		last, err := s.store.last(ctx, b.GetSource())
		if err != nil {
			return err
		}
		end := b.GetFirst() + int64(len(b.GetEvents())) - 1
		known := min(max(0, last-b.GetFirst()+1), int64(len(b.GetEvents())))
		fresh := b.GetEvents()[known:]
		if len(fresh) > 0 {
			err = s.store.add(ctx, progress{b.GetSource(), last, end}, sum(fresh), s.deps.Now())
		}
		if errors.Is(err, errConcurrent) {
			continue
		}
		if err == nil {
			s.observe(fresh, known)
		}
		return err
	}
}

// observe updates the Prometheus metrics.
func (s *Service) observe(fresh []*metricsv1.Event, known int64) {
	for _, e := range fresh {
		if m := metricOf(e.GetMetric()); m != "" {
			s.counted.WithLabelValues(string(m)).Inc()
		}
	}
	s.repeated.Add(float64(known))
}

// sum returns the counts of events, by day and for all days.
func sum(events []*metricsv1.Event) map[eventKey]int64 {
	counts := map[eventKey]int64{}
	for _, e := range events {
		m := metricOf(e.GetMetric())
		if m == "" {
			continue
		}
		counts[eventKey{m, dayOf(e.GetDay()), e.GetOrg()}]++
		counts[eventKey{m, allDays, e.GetOrg()}]++
	}
	return counts
}

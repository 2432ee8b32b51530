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

// silence is how long a source may be silent before it is forgotten.
const silence = 366 * 24 * time.Hour

// Run counts what other rooms publish, until ctx ends. NATS may go and come.
func (s *Service) Run(ctx context.Context) error {
	retry.Forever(ctx, s.consume, func(err error) {
		s.deps.Log.WarnContext(ctx, "Events cannot be counted right now; they wait", "err", err)
	})
	return nil
}

func (s *Service) consume(ctx context.Context) error {
	if err := bus.MakeStreams(ctx, s.bus, metricsbus.Stream()); err != nil {
		return err
	}
	if err := s.store.forget(ctx, s.deps.Now().Add(-silence)); err != nil {
		return fmt.Errorf("forgetting old sources: %w", err)
	}
	return bus.Consume(ctx, s.bus, metricsbus.Consumer(), s.consumeBatch)
}

// consumeBatch acknowledges only what SQL has.
func (s *Service) consumeBatch(ctx context.Context, m jetstream.Msg) {
	b := &metricsv1.Batch{}
	if err := proto.Unmarshal(m.Data(), b); err != nil || b.GetSource() == "" || b.GetFirst() < 1 {
		s.deps.Log.ErrorContext(ctx, "Events cannot be read", "err", err)
		_ = m.Term() // retrying cannot help
		return
	}
	ctx, cancel := context.WithTimeout(ctx, metricsbus.EventAckWait*8/10)
	defer cancel()
	if err := s.count(ctx, b); err != nil {
		s.deps.Log.WarnContext(ctx, "Events cannot be counted right now; they wait", "err", err)
		_ = m.NakWithDelay(time.Second)
		return
	}
	if err := m.DoubleAck(ctx); err != nil {
		s.deps.Log.DebugContext(ctx, "Counted events will be delivered again", "err", err)
	}
}

// count adds the events of a batch that are not counted yet.
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
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err == nil {
			s.observe(fresh, known)
		}
		return err
	}
}

func (s *Service) observe(fresh []*metricsv1.Event, known int64) {
	for _, e := range fresh {
		if m := metricOf(e.GetMetric()); m != "" {
			s.counted.WithLabelValues(string(m)).Inc()
		}
	}
	s.repeated.Add(float64(known))
}

// sum adds events up, by their day and for all days.
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

package metrics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// sourceTTL is the time after which a source without events is deleted.
const sourceTTL = 366 * 24 * time.Hour

// sweepInterval is the interval at which old usage is deleted.
const sweepInterval = time.Hour

// Run counts the events that other services publish, until ctx is cancelled. It waits while NATS
// is unavailable.
func (s *Service) Run(ctx context.Context) error {
	var sweeper sync.WaitGroup
	defer sweeper.Wait()
	sweeper.Go(func() { s.sweep(ctx) })
	consumer := metricsbus.Consumer()
	consumer.Outage = &retry.Outage{Log: s.deps.Log, Fails: "Events cannot be counted right now; retrying", Works: "Events are counted again"}
	retry.Forever(ctx, consumer.Outage, func(ctx context.Context) error { return s.consume(ctx, consumer) })
	return nil
}

// sweep deletes the usage of days that are no longer stored, now and every sweepInterval.
func (s *Service) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		err := s.store.deleteUsage(ctx, s.deps.Now().AddDate(0, 0, 1-limits.UsageDays))
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "Old usage was not deleted; it is tried again in an hour", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Service) consume(ctx context.Context, consumer bus.Consumer) error {
	if err := bus.CreateStreams(ctx, s.bus, metricsbus.Stream()); err != nil {
		return err
	}
	if err := s.store.deleteSources(ctx, s.deps.Now().Add(-sourceTTL)); err != nil {
		return fmt.Errorf("deleting old sources: %w", err)
	}
	counting := &retry.Outage{Log: s.deps.Log, Fails: "Events that were read cannot be counted right now; retrying", Works: "Events that were read are counted again"}
	return bus.Consume(ctx, s.bus, consumer, func(ctx context.Context, m jetstream.Msg) { s.consumeBatch(ctx, m, counting) })
}

// consumeBatch counts a batch of events, and acknowledges it after the counts are committed.
func (s *Service) consumeBatch(ctx context.Context, m jetstream.Msg, counting *retry.Outage) {
	b := &metricsv1.Batch{}
	if err := proto.Unmarshal(m.Data(), b); err != nil || b.GetSource() == "" || b.GetFirst() < 1 {
		s.deps.Log.ErrorContext(ctx, "A batch of events is malformed and was dropped", "err", err)
		_ = m.Term() // a retry would fail as well
		return
	}
	ctx, cancel := context.WithTimeout(ctx, metricsbus.EventAckWait*8/10)
	defer cancel()
	if err := s.count(ctx, b); err != nil {
		counting.Failed(ctx, err)
		_ = m.NakWithDelay(time.Second)
		return
	}
	counting.Succeeded(ctx)
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

// totals are what the events of a batch add to the tables.
type totals struct {
	// counts has the number of events, by day and for all days.
	counts map[eventKey]int64
	usage  map[usageKey]usageAmount
}

// sum returns the totals of events.
func sum(events []*metricsv1.Event) totals {
	t := totals{map[eventKey]int64{}, map[usageKey]usageAmount{}}
	for _, e := range events {
		m := metricOf(e.GetMetric())
		if m == "" {
			continue
		}
		day := dayOf(e.GetDay())
		key := usageKey{day, e.GetUserId(), e.GetWorkspaceId(), m}
		t.usage[key] = usageAmount{e.GetRobotOrgId(), t.usage[key].amount + max(1, e.GetAmount())}
		if m == buildSeconds {
			continue
		}
		t.counts[eventKey{m, day, e.GetOrg()}]++
		t.counts[eventKey{m, allDays, e.GetOrg()}]++
	}
	return t
}

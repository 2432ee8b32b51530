package build

import (
	"context"
	"fmt"
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus/metricsbus"
)

// countingInterval is how often to look for uncounted builds whose wake-up was lost, and for
// builds that have ended.
const countingInterval = 5 * time.Second

// uncounted is the queue of events of builds that have not been published for counting. An event
// gets its number once, in SQL, and numbers are published in order. So any replica may repeat a
// publication, and the metrics service recognises repetitions.
type uncounted struct {
	store.Store
	counting store.Counting
	platform string
}

// Next implements metricsbus.Queue.
func (u uncounted) Next(ctx context.Context, most int) (*metricsv1.Batch, error) {
	for more := true; more; {
		var err error
		if more, err = u.Number(ctx, u.counting, most); err != nil {
			return nil, fmt.Errorf("numbering builds: %w", err)
		}
	}
	return u.Uncounted(ctx, u.counting, u.platform, most)
}

// Published implements metricsbus.Queue.
func (u uncounted) Published(ctx context.Context, b *metricsv1.Batch) error {
	return u.MarkCounted(ctx, u.counting, b.GetFirst()+int64(len(b.GetEvents()))-1)
}

// newOutboxes returns the outboxes that publish, in the background, an event for each admitted
// build, and one for each build that has ended.
func (s *Service) newOutboxes() (admitted, ended *metricsbus.Outbox, err error) {
	queue := func(c store.Counting) uncounted { return uncounted{s.store, c, s.deps.PlatformURL} }
	admitted, err = metricsbus.NewOutbox(s.deps.Bus, queue(store.Admissions()), metricsbus.Options{
		Name: "builds", Log: s.deps.Log, Wake: s.admitted, PollInterval: countingInterval,
	})
	if err != nil {
		return nil, nil, err
	}
	ended, err = metricsbus.NewOutbox(s.deps.Bus, queue(store.Durations()), metricsbus.Options{
		Name: "durations of builds", Log: s.deps.Log, PollInterval: countingInterval,
	})
	return admitted, ended, err
}

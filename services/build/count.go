package build

import (
	"context"
	"fmt"
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus/metricsbus"
)

// admissionsInterval is how often to look for uncounted builds whose wake-up was lost.
const admissionsInterval = 5 * time.Second

// admissions is the queue of admitted builds that have not been published for counting. A
// build gets its number once, in SQL, and numbers are published in order. So any replica
// may repeat a publication, and the metrics service recognises repetitions.
type admissions struct{ store.Store }

// Next implements metricsbus.Queue.
func (a admissions) Next(ctx context.Context, most int) (*metricsv1.Batch, error) {
	for more := true; more; {
		var err error
		if more, err = a.Number(ctx, most); err != nil {
			return nil, fmt.Errorf("numbering builds: %w", err)
		}
	}
	return a.Uncounted(ctx, most)
}

// Published implements metricsbus.Queue.
func (a admissions) Published(ctx context.Context, b *metricsv1.Batch) error {
	return a.MarkCounted(ctx, b.GetFirst()+int64(len(b.GetEvents()))-1)
}

// newOutbox returns an outbox that publishes an event for each admitted build in the
// background.
func (s *Service) newOutbox() (*metricsbus.Outbox, error) {
	return metricsbus.NewOutbox(s.deps.Bus, admissions{s.store}, metricsbus.Options{
		Name: "builds", Log: s.deps.Log, Wake: s.admitted, Look: admissionsInterval,
	})
}

package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/memo"
)

// Store is something in this process that keeps content on disk.
type Store struct {
	// Name is what it is called at the REST edge.
	Name string
	// Limit is how many bytes it may take up; 0 is no bound.
	Limit int64
	// Size looks how many bytes it takes up.
	Size func() (int64, error)
}

// storageAge is how old what GetStorage says may be: to look takes a walk through a disk.
const storageAge = 10 * time.Second

func newStorage() *memo.Memo[struct{}, *metricsv1.GetStorageResponse] {
	return memo.New(&otter.Options[struct{}, *metricsv1.GetStorageResponse]{
		MaximumSize: 1, ExpiryCalculator: otter.ExpiryWriting[struct{}, *metricsv1.GetStorageResponse](storageAge),
	})
}

// GetStorage returns how much the stores of this process take up, as of the last seconds.
func (s *Service) GetStorage(ctx context.Context, _ *metricsv1.GetStorageRequest) (*metricsv1.GetStorageResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	return s.storage.Get(ctx, struct{}{}, func(context.Context) (*metricsv1.GetStorageResponse, error) { return s.measure() })
}

func (s *Service) measure() (*metricsv1.GetStorageResponse, error) {
	out := &metricsv1.GetStorageResponse{}
	for _, one := range s.deps.Stores {
		size, err := one.Size()
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", one.Name, err)
		}
		shown := &metricsv1.Store{Name: proto.String(one.Name), Size: proto.Float64(float64(size))}
		if one.Limit > 0 {
			shown.Limit = proto.Float64(float64(one.Limit))
		}
		out.Stores = append(out.Stores, shown)
	}
	return out, nil
}

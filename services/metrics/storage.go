package metrics

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
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

// GetStorage looks how much the stores of this process take up now.
func (s *Service) GetStorage(ctx context.Context, _ *metricsv1.GetStorageRequest) (*metricsv1.GetStorageResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
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

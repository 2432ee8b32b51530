package conda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// layerTimeout is the timeout for looking up existing layers.
const layerTimeout = time.Second

// addLayerStates sets in each lock how many packages exist as layers, and the total size of the
// others. If the lookup fails, the lock is returned without these numbers.
func (s *Service) addLayerStates(ctx context.Context, locks []lock, out []*condav1.PlatformLock) {
	if s.deps.Build == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, layerTimeout)
	defer cancel()
	for i, l := range locks {
		there, err := s.layers(ctx, l)
		if err != nil {
			continue
		}
		var known int32
		var missing int64
		for n, r := range l.solution.Records {
			if there[n] {
				known++
			} else {
				missing += r.Size
			}
		}
		out[i].KnownLayers, out[i].MissingBytes = proto.Int32(known), proto.Float64(float64(missing))
	}
}

// layers returns for each package of a lock whether its layer exists. It returns an error for
// an environment that was read with a login, whose layers are not shared between workers.
func (s *Service) layers(ctx context.Context, l lock) ([]bool, error) {
	if slices.ContainsFunc(l.lists, func(from list) bool { return from.private }) {
		return nil, errors.New("the layers are the caller's own")
	}
	records := l.solution.Records
	python, err := spec.PythonOf(records)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(records))
	for i, r := range records {
		key, err := r.LayerKey(python, spec.Gzip, "")
		if err != nil {
			return nil, err
		}
		keys[i] = string(key)
	}
	var there []bool
	for some := range slices.Chunk(keys, limits.LayerKeys) {
		found, err := s.deps.Build.FindLayers(ctx, &buildv1.FindLayersRequest{Keys: some})
		if err != nil {
			return nil, err
		}
		there = append(there, found.GetThere()...)
	}
	if len(there) != len(records) {
		return nil, fmt.Errorf("of %d layers the answer is about %d", len(records), len(there))
	}
	return there, nil
}

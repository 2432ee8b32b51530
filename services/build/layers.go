package build

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// makeClaims creates the bucket in which workers share layers, with as many replicas as the
// stream of jobs, or updates its retention to the settings. If NATS has no space for the
// bucket, builds work without it.
func (s *Service) makeClaims(ctx context.Context) {
	claims := buildbus.Claims(s.deps.LayerMemory)
	jobs, err := s.bus.Stream(ctx, buildbus.JobStream)
	if err == nil {
		claims.Replicas = jobs.CachedInfo().Config.Replicas
		err = bus.CreateStreams(ctx, s.bus, claims)
	}
	if err == nil {
		err = s.updateClaims(ctx, claims)
	}
	if err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "Workers cannot share layers of packages", "err", err)
	}
}

// updateClaims updates a bucket that was created with other settings. Other changes by an
// operator are kept.
func (s *Service) updateClaims(ctx context.Context, want jetstream.StreamConfig) error {
	there, err := s.bus.Stream(ctx, want.Name)
	if err != nil {
		return err
	}
	config := there.CachedInfo().Config
	if config.MaxAge == want.MaxAge {
		return nil
	}
	config.MaxAge = want.MaxAge
	if config.MaxBytes > 0 {
		config.MaxBytes = max(config.MaxBytes, want.MaxBytes)
	}
	_, err = s.bus.UpdateStream(ctx, config)
	return err
}

// layerKey matches a conda.LayerKey.
var layerKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

// FindLayers returns which layers the service's own repository has, according to records
// that workers signed. It also returns layers that were deleted there later: the worker
// that uses one checks that.
func (s *Service) FindLayers(ctx context.Context, req *buildv1.FindLayersRequest) (*buildv1.FindLayersResponse, error) {
	keys := req.GetKeys()
	if len(keys) > limits.LayerKeys {
		return nil, fault.Invalid.Newf("At most %d layers can be looked for at a time", limits.LayerKeys)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.LayerLookup)
	defer cancel()
	bucket, err := s.bus.KeyValue(ctx, buildbus.ClaimBucket)
	if err != nil {
		return nil, unreadable(err)
	}
	out := &buildv1.FindLayersResponse{There: make([]bool, len(keys))}
	check := &recordCheck{Service: s}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(limits.LayerLookups)
	for i, k := range keys {
		if !layerKey.MatchString(k) {
			return nil, fault.Invalid.Newf("%q is not the key of a layer", fault.Quote(k))
		}
		g.Go(func() error {
			name := spec.LayerKey(k).At(s.deps.Own)
			e, err := bucket.Get(ctx, name)
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				return nil
			}
			if err == nil { // without a value the layer is being built
				out.There[i], err = check.isValid(ctx, name, e.Value())
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, unreadable(err)
	}
	return out, nil
}

func unreadable(err error) error {
	return fault.Unavailable.New("The records of layers cannot be read right now", err).After(5 * time.Second)
}

package container

import (
	"context"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// The index of packages connects requests with the packages in their images. The locks belong to
// the build service. A request is indexed after it is stored, when its build has
// ended; requests of earlier releases are indexed likewise.

// unusedPackages is how long packages that no request has remain in the index.
const unusedPackages = 24 * time.Hour

// indexPeriodically indexes the packages of new requests until ctx ends. Replicas may run it
// concurrently.
func (s *Service) indexPeriodically(ctx context.Context) {
	outage := &retry.Outage{Log: s.deps.Log, Fails: "The packages of images cannot be indexed right now; retrying", Works: "The packages of images are indexed again"}
	for retry.Sleep(ctx, limits.IndexEvery) {
		err := s.indexPackages(ctx, 0)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			outage.Failed(ctx, err)
		default:
			outage.Succeeded(ctx)
		}
	}
}

// indexPackages indexes the packages of requests that are not indexed, in up to most batches; 0
// for all. Requests whose builds have not ended remain. Concurrent calls take turns, batch by
// batch, so that they do not index the same requests.
func (s *Service) indexPackages(ctx context.Context, most int) error {
	if s.deps.Build == nil {
		return nil
	}
	after := ""
	for n := 0; most == 0 || n < most; n++ {
		last, err := s.indexBatch(ctx, after)
		if err != nil || last == "" {
			return err
		}
		after = last
		if most == 0 && !retry.Sleep(ctx, batchPause) {
			return ctx.Err()
		}
	}
	return nil
}

// indexBatch indexes the packages of the next builds after an ID, and returns the last ID; "" if
// there were none.
func (s *Service) indexBatch(ctx context.Context, after string) (last string, err error) {
	select {
	case s.indexing <- struct{}{}:
		defer func() { <-s.indexing }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	ids, err := s.store.Unindexed(ctx, after)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	resp, err := s.deps.Build.ListLockedPackages(ctx, &buildv1.ListLockedPackagesRequest{BuildIds: ids})
	if err != nil {
		return "", err
	}
	for _, b := range resp.GetBuilds() {
		var packages []store.ImagePackage
		for _, p := range b.GetPackages() {
			packages = append(packages, store.ImagePackage{Name: p.GetName(), Version: p.GetVersion(), Kind: p.GetKind()})
		}
		if err := s.store.IndexPackages(ctx, b.GetBuildId(), packages, !b.GetUnknown(), s.deps.Now()); err != nil {
			return "", err
		}
	}
	return ids[len(ids)-1], nil
}

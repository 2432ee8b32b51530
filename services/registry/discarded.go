package registry

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/retry"
)

// discarded holds the ids of builds whose images must not be served, because a worker was
// revoked. The build service lists them. Safe for concurrent use.
type discarded struct {
	// builds is nil without a build service.
	builds buildv1.BuildServiceClient
	// ids is nil until the list was read once.
	ids    atomic.Pointer[map[string]bool]
	flight memo.Flight[struct{}, map[string]bool]
}

// check returns fault.NotFound if the image of a token was built by a build that was
// discarded, or has layers of such an image. Until the list has been read once, check reads it
// and returns an error if that fails.
func (d *discarded) check(ctx context.Context, tok *resolvedToken) error {
	if d.builds == nil || len(tok.builds) == 0 {
		return nil
	}
	ids := d.ids.Load()
	if ids == nil {
		read, err := d.read(ctx)
		if err != nil {
			return fmt.Errorf("reading which builds were discarded: %w", err)
		}
		ids = &read
	}
	for _, id := range tok.builds {
		if (*ids)[id] {
			return unknownManifest(fmt.Sprintf("The image of the build %s was discarded, because a worker that built it, or an image or a layer in it, "+
				"was revoked. Repeat the container request to build it again", id))
		}
	}
	return nil
}

// run reads the list periodically until ctx is done.
func (d *discarded) run(ctx context.Context, log *slog.Logger) {
	if d.builds == nil {
		return
	}
	outage := &retry.Outage{Log: log, Fails: "The list of discarded builds cannot be read right now; retrying", Works: "The list of discarded builds is read again"}
	retry.Forever(ctx, outage, func(ctx context.Context) error {
		if _, err := d.read(ctx); err != nil {
			return err
		}
		outage.Succeeded(ctx)
		retry.Sleep(ctx, limits.WorkerKeyLease)
		return nil
	})
}

// read reads the list. Concurrent calls share one request.
func (d *discarded) read(ctx context.Context) (map[string]bool, error) {
	return d.flight.Do(ctx, struct{}{}, func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ids, after := map[string]bool{}, ""
		for len(ids) < limits.DiscardedBuildsInAll {
			page, err := d.builds.ListDiscardedBuilds(ctx, &buildv1.ListDiscardedBuildsRequest{After: after})
			if err != nil {
				return nil, err
			}
			for _, id := range page.GetBuildIds() {
				ids[id], after = true, id
			}
			if len(page.GetBuildIds()) == 0 {
				d.ids.Store(&ids)
				return ids, nil
			}
		}
		return nil, fault.Unavailable.Newf("More than %d builds were discarded, which is the limit; move to a new database and build_repository", limits.DiscardedBuildsInAll)
	})
}

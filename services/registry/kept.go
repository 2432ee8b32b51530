package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
)

// A keptCounter counts the pulls of kept images for the catalog. Its numbers are for display
// only: what a killed process has not stored is lost.
type keptCounter struct {
	containers containerv1.ContainerServiceClient
	mu         sync.Mutex
	// pulls are the pulls that are not stored yet, by image.
	pulls map[string]int64
}

// pull counts a pull of a kept image. Other images are not counted.
func (c *keptCounter) pull(tok *resolvedToken) {
	if !oci.IsKeptID(tok.token) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(tok.token, 1)
}

// add adds pulls. c.mu must be locked.
func (c *keptCounter) add(id string, n int64) {
	if _, known := c.pulls[id]; known || len(c.pulls) < limits.CatalogPulled {
		c.pulls[id] += n
	}
}

// run stores the pulls periodically until ctx ends, and then once more.
func (c *keptCounter) run(ctx context.Context, log *slog.Logger) {
	outage := &retry.Outage{Log: log, Fails: "The pulls of kept images cannot be counted right now; retrying", Works: "The pulls of kept images are counted again"}
	for retry.Sleep(ctx, limits.CatalogPullsEvery) {
		if err := c.store(ctx); err != nil {
			outage.Failed(ctx, err)
		} else {
			outage.Succeeded(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := c.store(last); err != nil {
		log.WarnContext(last, "The last pulls of kept images were not counted", "err", err)
	}
}

// store stores the pulls. If that fails, they are stored later.
func (c *keptCounter) store(ctx context.Context) error {
	c.mu.Lock()
	pulls := c.pulls
	c.pulls = map[string]int64{}
	c.mu.Unlock()
	if len(pulls) == 0 {
		return nil
	}
	_, err := c.containers.CountCatalogPulls(ctx, &containerv1.CountCatalogPullsRequest{Pulls: pulls})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for id, n := range pulls {
			c.add(id, n)
		}
	}
	return err
}

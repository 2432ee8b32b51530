package buildkit

import (
	"context"
	"errors"
	"time"

	"github.com/moby/buildkit/client"

	"slipway.dev/services/internal/retry"
)

// errDisk is the cancellation cause of a build that fills the disk.
var errDisk = errors.New("the build fills the disk")

// watchDisk cancels the context when the local daemon's folder grows too much. Concurrent
// builds are counted together, since the share of each is unknown.
func (b *Engine) watchDisk(ctx context.Context) (context.Context, func()) {
	if b.o.Disk <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	start := time.Now()
	go func() {
		for wait := time.Second; retry.Sleep(ctx, wait); {
			look := time.Now()
			if b.o.Local.GrowthSince(start) > b.o.Disk {
				cancel(errDisk)
			}
			wait = max(time.Second, 10*time.Since(look)) // a large folder is checked less often
		}
	}()
	return ctx, func() { cancel(nil) }
}

// withinDisk is watchDisk for a build on the local daemon. For a build that filled the
// disk, the returned function also prunes the cache.
func (b *Engine) withinDisk(ctx context.Context, name string, c *client.Client) (context.Context, func()) {
	if name != local {
		return ctx, func() {}
	}
	ctx, unwatch := b.watchDisk(ctx)
	began := time.Now()
	return ctx, func() {
		if errors.Is(context.Cause(ctx), errDisk) {
			b.pruneSince(c, began)
		}
		unwatch()
	}
}

// pruneSince removes unused entries from a daemon's cache that were created after a time,
// so that a build that filled the disk leaves nothing behind.
func (b *Engine) pruneSince(c *client.Client, since time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// An entry can only be removed after the entries that depend on it.
	for range 5 {
		used, err := c.DiskUsage(ctx)
		left := 0
		for _, u := range used {
			if err == nil && u.CreatedAt.After(since) && !u.InUse {
				left++
				err = c.Prune(ctx, nil, client.PruneAll, client.WithFilter([]string{"id==" + u.ID}))
			}
		}
		if err != nil {
			b.o.Log.WarnContext(ctx, "The cache entries of a build that filled the disk could not be removed", "err", err)
		}
		if err != nil || left == 0 {
			return
		}
	}
}

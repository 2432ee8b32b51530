package buildkit

import (
	"context"
	"errors"
	"time"

	"github.com/moby/buildkit/client"

	"slipway.dev/services/internal/retry"
)

// errDisk ends a build that fills the disk: a cause of its context.
var errDisk = errors.New("the build fills the disk")

// watchDisk ends the context when the local daemon's folder grows too much. Builds
// that run side by side are counted together: what each wrote is not known.
func (b *Engine) watchDisk(ctx context.Context) (context.Context, func()) {
	if b.o.Disk <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	start := time.Now()
	go func() {
		for wait := time.Second; retry.Sleep(ctx, wait); {
			look := time.Now()
			if b.o.Local.Grown(start) > b.o.Disk {
				cancel(errDisk)
			}
			wait = max(time.Second, 10*time.Since(look)) // a large folder is looked at less often
		}
	}()
	return ctx, func() { cancel(nil) }
}

// withinDisk is watchDisk for a build at a daemon, where that is the local one. Its end
// gives back what a build has left that filled the disk.
func (b *Engine) withinDisk(ctx context.Context, name string, c *client.Client) (context.Context, func()) {
	if name != local {
		return ctx, func() {}
	}
	ctx, unwatch := b.watchDisk(ctx)
	began := time.Now()
	return ctx, func() {
		if errors.Is(context.Cause(ctx), errDisk) {
			b.giveBack(c, began)
		}
		unwatch()
	}
}

// giveBack removes from a daemon's cache what came to it since a time and nobody
// uses: a build that filled the disk leaves nothing that another would want to find.
func (b *Engine) giveBack(c *client.Client, since time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// What has others on top of it goes after them.
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
			b.o.Log.WarnContext(ctx, "What a build wrote that filled the disk is still there", "err", err)
		}
		if err != nil || left == 0 {
			return
		}
	}
}

package builder

import (
	"context"
	"errors"
	"time"
)

// errDisk ends a build that fills the disk: a cause of its context.
var errDisk = errors.New("the build fills the disk")

// watchDisk ends the context when the local daemon's folder grows too much. Builds
// that run side by side are counted together: what each wrote is not known.
func (b *BuildKit) watchDisk(ctx context.Context) (context.Context, func()) {
	if b.o.Disk <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	start := time.Now()
	go func() {
		for wait := time.Second; pause(ctx, wait); {
			look := time.Now()
			if b.o.Local.Grown(start) > b.o.Disk {
				cancel(errDisk)
			}
			wait = max(time.Second, 10*time.Since(look)) // a large folder is looked at less often
		}
	}()
	return ctx, func() { cancel(nil) }
}

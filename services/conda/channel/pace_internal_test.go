package channel

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/bubble"
)

// TestPace checks that a slow body is cancelled and a fast one is not.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drop int
		want error
	}{"slow": {1000, fault.Unavailable}, "in time": {limits.ChannelPace, nil}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				r, w := io.Pipe()
				context.AfterFunc(ctx, func() { _ = r.CloseWithError(ctx.Err()) })
				body := pace(ctx, end, r)
				var err error
				var reader sync.WaitGroup
				reader.Go(func() { _, err = io.Copy(io.Discard, body) })
				for range 20 {
					bubble.Elapse(limits.ChannelStall / 2)
					_, _ = w.Write(make([]byte, c.drop)) // fails if the reader disconnected
				}
				_ = w.Close()
				reader.Wait()
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				_ = body.Close()
			})
		})
	}
}

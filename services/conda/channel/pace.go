package channel

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// errSlow is the cancellation cause of a download that was too slow.
var errSlow = errors.New("the channel is too slow")

// A paced is the body of a response that must arrive at a minimum rate, since a slow
// download delays the fetch of other channels.
type paced struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // it ends with the body
	end context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	received int64
}

// pace monitors the body of a request whose context is ctx; end cancels ctx.
func pace(ctx context.Context, end context.CancelCauseFunc, body io.ReadCloser) *paced {
	p := &paced{ReadCloser: body, ctx: ctx, end: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(limits.ChannelStall, p.check)
	return p
}

// check is called every limits.ChannelStall.
func (p *paced) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received < limits.ChannelPace {
		p.end(errSlow)
		return
	}
	p.received = 0
	p.timer.Reset(limits.ChannelStall)
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received += int64(n)
	if err != nil {
		p.timer.Stop()
	}
	if err != nil && errors.Is(context.Cause(p.ctx), errSlow) {
		return n, fault.Unavailable.New("The channel's list of packages comes too slowly", err)
	}
	return n, err
}

// Close implements io.Closer.
func (p *paced) Close() error {
	p.timer.Stop()
	p.end(nil)
	return p.ReadCloser.Close()
}

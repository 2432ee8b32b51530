package retry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// outagePause is the least time between two log lines about failures.
const outagePause = time.Minute

// An Outage logs that something fails again and again: when it begins, then at most once a
// minute, and when it is over. It is safe for concurrent use.
type Outage struct {
	Log *slog.Logger
	// Fails and Works are the messages of the log lines.
	Fails, Works string

	mu       sync.Mutex
	failures int // since the last success
	isLogged bool
	logged   time.Time
}

// Failed reports a failure. A log line about it has the attributes. After ctx is done it does
// nothing.
func (o *Outage) Failed(ctx context.Context, err error, attributes ...any) {
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures++
	if !o.logged.IsZero() && time.Since(o.logged) < outagePause {
		return
	}
	o.isLogged, o.logged = true, time.Now()
	o.Log.WarnContext(ctx, o.Fails, append([]any{"err", err, "failures", o.failures}, attributes...)...) //nolint:sloglint // callers have constant messages
}

// Succeeded reports a success.
func (o *Outage) Succeeded(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isLogged {
		o.Log.InfoContext(ctx, o.Works, "failures", o.failures) //nolint:sloglint // callers have constant messages
	}
	o.failures, o.isLogged = 0, false
}

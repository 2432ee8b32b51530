package platform

import (
	"context"
	"log/slog"

	"slipway.dev/services/internal/caller"
)

// Publisher sends a message to whoever listens, without waiting for them.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// rights says whose credentials may have changed: a login that is remembered
// elsewhere is dropped.
type rights struct {
	bus Publisher // nil tells nobody
	log *slog.Logger
}

// Notify is called after the change.
func (r rights) Notify(ctx context.Context, c caller.Change) {
	if r.bus == nil {
		return
	}
	if err := r.bus.Publish(caller.Changed, []byte(c.String())); err != nil {
		r.log.WarnContext(ctx, "A change of rights did not reach everybody; it holds everywhere after a minute", "err", err)
	}
}

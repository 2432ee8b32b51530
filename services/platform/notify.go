package platform

import (
	"context"
	"log/slog"

	"slipway.dev/services/internal/caller"
)

// A Publisher publishes a message to all subscribers, without waiting for them.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// A notifier publishes changes of credentials and roles, so that other services delete cached
// logins.
type notifier struct {
	bus Publisher // nil publishes nothing
	log *slog.Logger
}

// Notify publishes a change, after it has been stored. Errors are only logged: cached logins
// expire within a minute.
func (n notifier) Notify(ctx context.Context, c caller.Change) {
	if n.bus == nil {
		return
	}
	if err := n.bus.Publish(caller.ChangedSubject, []byte(c.String())); err != nil {
		n.log.WarnContext(ctx, "Publishing a change of roles or credentials failed; cached logins expire within a minute", "err", err)
	}
}

// limitsChanged publishes that a limit has changed, after it has been stored. Errors are only
// logged: other services read the limits again within half a minute.
func (n notifier) limitsChanged(ctx context.Context) {
	if n.bus == nil {
		return
	}
	if err := n.bus.Publish(caller.LimitsSubject, nil); err != nil {
		n.log.WarnContext(ctx, "Publishing a change of limits failed; it applies within half a minute", "err", err)
	}
}

package webhooks

import (
	"context"
	"encoding/json"
	"time"

	"slipway.dev/services/platform/audit"
)

// disabledData is the data of the event webhook.disabled.
type disabledData struct {
	WebhookID    string    `json:"webhookId"`
	Host         string    `json:"host"`
	Reason       string    `json:"reason"`
	FailingSince time.Time `json:"failingSince,omitzero"`
}

// disable disables a webhook that fails, and notifies the other webhooks of its owner.
func (s *Service) disable(ctx context.Context, h hook, reason string) error {
	now := s.deps.Now()
	data, err := json.Marshal(disabledData{WebhookID: h.id, Host: hostOf(h.url), Reason: reason, FailingSince: h.failing.UTC()})
	if err != nil {
		return err
	}
	d, err := s.message("disabled."+h.id+"."+now.UTC().Format(time.RFC3339Nano), typeDisabled, h.id, now, data)
	if err != nil {
		return err
	}
	hooks, err := s.store.hooksOf(ctx, h.owner)
	if err != nil {
		return err
	}
	var others []string
	for _, other := range hooks {
		if other.id != h.id && other.disabled.IsZero() && matches(other.events, typeDisabled) {
			others = append(others, other.id)
		}
	}
	ctx = audit.WithActor(ctx, audit.Actor{Name: "slipwayd:webhooks"})
	disabled, err := s.store.disable(ctx, h, reason, d, others, now)
	if err != nil || !disabled {
		return err
	}
	s.deps.Log.WarnContext(ctx, "A webhook was disabled", "webhook", h.id, "host", hostOf(h.url), "reason", reason)
	s.wake()
	return nil
}

package platform_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// exports waits until the platform has metrics with these names and values, and no others of these
// names.
func (w *hookWorld) exports(names, want string) {
	w.t.Helper()
	testkit.Until(w.t, "metrics", func() error {
		return testutil.GatherAndCompare(w.metrics, strings.NewReader(want), strings.Fields(names)...)
	})
}

// TestWebhookMetrics checks the metrics of webhooks that work, fail and are disabled.
func TestWebhookMetrics(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newHookWorld(t, db, http.DefaultTransport)
		accepts, rejects, down, gone := testkit.NewHookReceiver(t), testkit.NewHookReceiver(t), testkit.NewHookReceiver(t), testkit.NewHookReceiver(t)
		rejects.AnswerStatus(http.StatusInternalServerError)
		gone.AnswerStatus(http.StatusGone)
		down.Close()
		id := w.hook("boss", 0, accepts)
		for _, r := range []*testkit.HookReceiver{rejects, down, gone} {
			w.hook("boss", 0, r, "build.*")
		}
		off := w.hook("boss", 0, accepts, "build.*")
		must(w.client.UpdateWebhook(w.as("boss"), &platformv1.UpdateWebhookRequest{WebhookId: off, Change: &platformv1.WebhookChange{Disabled: new(true)}}))(t)
		accepts.Verify() // two webhooks have different secrets
		w.happens("boss", 0, "build.failed", "b_1")
		w.exports("slipway_webhook_attempts_total slipway_webhook_deliveries_waiting slipway_webhook_deliveries_late_seconds", `
# HELP slipway_webhook_attempts_total Messages sent to receivers of webhooks, by result: accepted, rejected or unreachable.
# TYPE slipway_webhook_attempts_total counter
slipway_webhook_attempts_total{result="accepted"} 2
slipway_webhook_attempts_total{result="rejected"} 2
slipway_webhook_attempts_total{result="unreachable"} 1
# HELP slipway_webhook_deliveries_late_seconds How long the message that waits longest should have been sent, without those of failing and disabled webhooks; 0 when none waits. All replicas report the same value.
# TYPE slipway_webhook_deliveries_late_seconds gauge
slipway_webhook_deliveries_late_seconds 0
# HELP slipway_webhook_deliveries_waiting Messages of webhooks that wait for their first or next attempt. All replicas report the same value.
# TYPE slipway_webhook_deliveries_waiting gauge
slipway_webhook_deliveries_waiting 2
`) // the receiver that accepts also gets webhook.disabled
		w.exports("slipway_webhooks", `
# HELP slipway_webhooks Webhooks by state: enabled, failing (the last message was not accepted), stopped (disabled by the service) or disabled (by a user). All replicas report the same value: use max, not sum.
# TYPE slipway_webhooks gauge
slipway_webhooks{state="disabled"} 1
slipway_webhooks{state="enabled"} 1
slipway_webhooks{state="failing"} 2
slipway_webhooks{state="stopped"} 1
`)
		w.stop()
		must(w.client.TestWebhook(w.as("boss"), &platformv1.TestWebhookRequest{WebhookId: id}))(t)
		w.clock.add(11 * time.Minute)
		w.exports("slipway_webhook_deliveries_late_seconds", `
# HELP slipway_webhook_deliveries_late_seconds How long the message that waits longest should have been sent, without those of failing and disabled webhooks; 0 when none waits. All replicas report the same value.
# TYPE slipway_webhook_deliveries_late_seconds gauge
slipway_webhook_deliveries_late_seconds 660
`)
	})
}

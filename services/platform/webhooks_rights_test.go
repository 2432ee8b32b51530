package platform_test

import (
	"fmt"
	"net/http"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestWebhookRights checks that webhooks are of their owner only, and end with it.
func TestWebhookRights(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newHookWorld(t, db, http.DefaultTransport)
		r := testkit.NewHookReceiver(t)
		team, own := w.hook("admin", w.ws, r), w.hook("launch", 0, r)
		for _, user := range []string{"launch", "view", "member", "stranger"} {
			_, err := w.client.ListWebhooks(w.as(user), &platformv1.ListWebhooksRequest{WorkspaceId: &w.ws})
			wantError(t, user, err, fault.Denied)
			_, err = w.client.CreateWebhook(w.as(user), &platformv1.CreateWebhookRequest{WorkspaceId: &w.ws, Webhook: &platformv1.WebhookSpec{Url: r.URL}})
			wantError(t, user, err, fault.Denied)
		}
		_, err := w.client.DescribeWebhook(w.as("maintain"), &platformv1.DescribeWebhookRequest{WebhookId: own, WorkspaceId: &w.ws})
		wantError(t, "a personal webhook in a workspace", err, fault.NotFound)
		_, err = w.client.DeleteWebhook(w.as("admin"), &platformv1.DeleteWebhookRequest{WebhookId: team})
		wantError(t, "a webhook of a workspace as a personal one", err, fault.NotFound)
		_, err = w.client.ListDeliveries(w.as("stranger"), &platformv1.ListDeliveriesRequest{WebhookId: own})
		wantError(t, "deliveries of another user", err, fault.NotFound)
		_, err = w.client.CreateWebhook(w.as("launch"), &platformv1.CreateWebhookRequest{Webhook: &platformv1.WebhookSpec{Url: "ftp://h"}})
		wantError(t, "an invalid URL", err, fault.Invalid)
		for range limits.WebhooksPerOwner - 1 {
			w.hook("launch", 0, r)
		}
		_, err = w.client.CreateWebhook(w.as("launch"), &platformv1.CreateWebhookRequest{Webhook: &platformv1.WebhookSpec{Url: r.URL}})
		wantError(t, "too many webhooks", err, fault.Invalid)
		r.Verify() // each webhook has another secret
		w.happens("launch", 0, "build.failed", "b_1")
		w.happens("launch", w.ws, "build.failed", "b_2")
		testkit.Until(t, "messages", func() error {
			if got, _ := r.Got(); len(got) != limits.WebhooksPerOwner+1 {
				return fmt.Errorf("%d messages", len(got))
			}
			return nil
		})
		if err := w.service.DeleteUser(t.Context(), "launch"); err != nil {
			t.Fatal(err)
		}
		must(w.client.DeleteWorkspace(w.as("boss"), &platformv1.DeleteWorkspaceRequest{OrgId: w.org, Id: w.ws}))(t)
		for _, table := range []string{"platform_webhooks", "platform_deliveries"} {
			var n int
			if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil || n != 0 {
				t.Errorf("%d rows are left in %s: %v", n, table, err)
			}
		}
	})
}

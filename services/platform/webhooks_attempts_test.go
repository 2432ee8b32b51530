package platform_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestWebhookIsAttemptedAgain checks that a webhook pauses after a failure, that then all messages
// are sent, and that those of one subject keep their order.
func TestWebhookIsAttemptedAgain(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newHookWorld(t, db, http.DefaultTransport)
		r := testkit.NewHookReceiver(t)
		id := w.hook("boss", 0, r)
		r.AnswerStatus(http.StatusInternalServerError)
		w.happens("boss", 0, "build.started", "b_1")
		testkit.Until(t, "the first attempt", func() error {
			if list := w.deliveries("boss", 0, id, "PENDING"); len(list) != 1 || list[0].GetAttempts() != 1 {
				return fmt.Errorf("the deliveries are %v", list)
			}
			return nil
		})
		d := w.deliveries("boss", 0, id, "")[0]
		if d.GetProblem().GetValue() != "The receiver rejected the message: 500 Internal Server Error" || d.GetResponse().GetValue() != 500 || !d.GetNextAttempt().AsTime().After(d.GetLastAttempt().AsTime()) {
			t.Errorf("the delivery is %v", d)
		}
		if w.describe("boss", 0, id).GetFailingSince() == nil {
			t.Error("the webhook does not show that it fails")
		}
		w.happens("boss", 0, "build.failed", "b_1")
		w.happens("boss", 0, "build.started", "b_2")
		testkit.Until(t, "the other events", func() error {
			if list := w.deliveries("boss", 0, id, "PENDING"); len(list) != 3 {
				return fmt.Errorf("the deliveries are %v", list)
			}
			return nil
		})
		if _, calls := r.Got(); calls != 1 {
			t.Errorf("%d calls within the pause of the webhook", calls)
		}
		r.Answer(nil)
		w.pass(6 * time.Second)
		testkit.Until(t, "all messages", func() error {
			if list := w.deliveries("boss", 0, id, "DELIVERED"); len(list) != 3 {
				return fmt.Errorf("the deliveries are %v", list)
			}
			return nil
		})
		got, _ := r.Got()
		order := fmt.Sprint(got)
		if strings.Index(order, "build.started b_1") > strings.Index(order, "build.failed b_1") {
			t.Errorf("the order is %s", order)
		}
		if w.describe("boss", 0, id).GetFailingSince() != nil {
			t.Error("the webhook shows that it fails after it has recovered")
		}
	})
}

// TestWebhookIsDisabled checks that a webhook is disabled after a day, that another webhook is
// notified, and that it can be enabled and its messages repeated.
func TestWebhookIsDisabled(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newHookWorld(t, db, http.DefaultTransport)
		r, watching := testkit.NewHookReceiver(t), testkit.NewHookReceiver(t)
		id := w.hook("boss", 0, r)
		w.hook("boss", 0, watching, "webhook.disabled")
		r.AnswerStatus(http.StatusServiceUnavailable)
		w.happens("boss", 0, "build.failed", "b_1")
		testkit.Until(t, "the disabled webhook", func() error {
			w.pass(time.Hour)
			if !w.describe("boss", 0, id).GetDisabled() {
				return errors.New("the webhook is enabled")
			}
			return nil
		})
		h := w.describe("boss", 0, id)
		if want := "No message was accepted for 24 hours: The receiver rejected the message: 503 Service Unavailable"; h.GetDisabledReason().GetValue() != want {
			t.Errorf("the reason is %v", h.GetDisabledReason())
		}
		if _, calls := r.Got(); calls > 40 {
			t.Errorf("%d attempts", calls)
		}
		watching.Await("webhook.disabled " + id)
		events := must(w.client.ListAuditEvents(w.asAdministrator(), &platformv1.ListAuditEventsRequest{Action: "webhook.disable"}))(t).GetEvents()
		if len(events) != 1 || events[0].GetActor() != "slipwayd:webhooks" {
			t.Errorf("the audit trail has %v", events)
		}
		_, err := w.client.TestWebhook(w.as("boss"), &platformv1.TestWebhookRequest{WebhookId: id})
		wantError(t, "a test of a disabled webhook", err, fault.Conflict)
		w.happens("boss", 0, "build.failed", "b_2") // is not stored
		w.handled()

		r.Answer(nil)
		res := must(w.client.UpdateWebhook(w.as("boss"), &platformv1.UpdateWebhookRequest{WebhookId: id, Change: &platformv1.WebhookChange{Disabled: new(false), NewSecret: true}}))(t)
		r.Verify(r.Secrets()[0], res.GetSecret().GetValue()) // both sign
		failed := w.deliveries("boss", 0, id, "FAILED")
		if len(failed) != 1 || res.GetWebhook().GetDisabled() || res.GetWebhook().GetDisabledReason() != nil {
			t.Fatalf("the deliveries are %v, and the webhook is %v", failed, res.GetWebhook())
		}
		must(w.client.RepeatDelivery(w.as("boss"), &platformv1.RepeatDeliveryRequest{WebhookId: id, DeliveryId: failed[0].GetId()}))(t)
		r.Await("build.failed b_1")

		r.AnswerStatus(http.StatusGone)
		must(w.client.TestWebhook(w.as("boss"), &platformv1.TestWebhookRequest{WebhookId: id}))(t)
		testkit.Until(t, "the end", func() error {
			if !w.describe("boss", 0, id).GetDisabled() {
				return errors.New("the webhook is enabled")
			}
			return nil
		})
	})
}

// TestRejectedMessage checks that a message that a receiver always rejects fails after a day, and
// that the webhook and other messages are not affected.
func TestRejectedMessage(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newHookWorld(t, db, http.DefaultTransport)
		r := testkit.NewHookReceiver(t)
		id := w.hook("boss", 0, r)
		r.Answer(func(w http.ResponseWriter, _ *http.Request) {
			if e, _ := r.Last(); e.Subject() == "bad" {
				w.WriteHeader(http.StatusBadRequest)
			}
		})
		w.happens("boss", 0, "build.failed", "bad")
		for n := 0; ; n++ {
			w.happens("boss", 0, "build.failed", fmt.Sprint("b_", n))
			testkit.Until(t, "the other message", func() error {
				w.pass(10 * time.Second)
				if list := w.deliveries("boss", 0, id, "DELIVERED"); len(list) != n+1 {
					return fmt.Errorf("%d messages of %d were delivered", len(list), n+1)
				}
				return nil
			})
			if failed := w.deliveries("boss", 0, id, "FAILED"); len(failed) == 1 && failed[0].GetSubject() == "bad" {
				break
			}
			if n == 100 {
				t.Fatal("the rejected message does not fail")
			}
			w.clock.add(time.Hour)
		}
		if h := w.describe("boss", 0, id); h.GetDisabled() {
			t.Errorf("the webhook is %v", h)
		}
	})
}

// TestWebhookOfDisabledUser checks that nothing is sent for a disabled user.
func TestWebhookOfDisabledUser(t *testing.T) {
	t.Parallel()
	w := newHookWorld(t, testkit.SQLite(t), http.DefaultTransport)
	r, other := testkit.NewHookReceiver(t), testkit.NewHookReceiver(t)
	w.hook("launch", 0, r)
	w.hook("boss", 0, other)
	if err := w.service.DisableUser(t.Context(), "launch"); err != nil {
		t.Fatal(err)
	}
	w.happens("launch", 0, "build.failed", "b_1")
	w.happens("boss", 0, "build.failed", "b_2")
	other.Await("build.failed b_2")
	if _, calls := r.Got(); calls != 0 {
		t.Error("a message was sent")
	}
}

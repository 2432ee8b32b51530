package platform_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestWebhookReceivers checks receivers that redirect, that cannot be reached, that are on private
// addresses, and that never answer.
func TestWebhookReceivers(t *testing.T) {
	t.Parallel()
	db := testkit.SQLite(t)
	private := testkit.NewHookReceiver(t)
	problem := func(t *testing.T, w *hookWorld, id string) string {
		t.Helper()
		must(w.client.TestWebhook(w.as("boss"), &platformv1.TestWebhookRequest{WebhookId: id}))(t)
		var problem string
		testkit.Until(t, "an attempt", func() error {
			problem = w.deliveries("boss", 0, id, "PENDING")[0].GetProblem().GetValue()
			if problem == "" {
				return errors.New("there was no attempt")
			}
			return nil
		})
		return problem
	}
	w := newHookWorld(t, db, http.DefaultTransport)
	redirects := testkit.NewHookReceiver(t)
	redirects.Answer(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, private.URL, http.StatusTemporaryRedirect)
	})
	if got := problem(t, w, w.hook("boss", 0, redirects)); !strings.Contains(got, "redirects (307 Temporary Redirect)") {
		t.Errorf("a redirect: %s", got)
	}
	upgrades := testkit.NewHookReceiver(t)
	upgrades.Answer(func(rw http.ResponseWriter, _ *http.Request) { // and never closes the connection
		conn, out, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = out.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_ = out.Flush()
	})
	if got := problem(t, w, w.hook("boss", 0, upgrades)); got != "The receiver rejected the message: 101 Switching Protocols" {
		t.Errorf("an upgrade: %s", got)
	}
	down := testkit.NewHookReceiver(t)
	down.Close()
	if got := problem(t, w, w.hook("boss", 0, down)); got != "The receiver refuses connections" {
		t.Errorf("a receiver that is down: %s", got)
	}
	hangs, begun, quick := testkit.NewHookReceiver(t), make(chan struct{}, 1), testkit.NewHookReceiver(t)
	hangs.Answer(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
	})
	slow := w.hook("boss", 0, hangs, "build.*")
	w.hook("boss", 0, quick, "build.*")
	w.happens("boss", 0, "build.failed", "b_1")
	<-begun
	quick.Await("build.failed b_1")
	w.stop() // ends the attempt, which does not count
	if list := w.deliveries("boss", 0, slow, "PENDING"); len(list) != 1 || list[0].GetAttempts() != 0 {
		t.Errorf("after an attempt that was aborted: %v", list)
	}
	if _, calls := private.Got(); calls != 0 {
		t.Error("the redirect was followed")
	}

	guard, err := upstream.NewEgress(nil)
	if err != nil {
		t.Fatal(err)
	}
	w = newHookWorld(t, testkit.SQLite(t), upstream.NewTransport(guard))
	if got := problem(t, w, w.hook("boss", 0, private)); !strings.Contains(got, "is not a public address") {
		t.Errorf("a private address: %s", got)
	}
	if _, calls := private.Got(); calls != 0 {
		t.Error("a private address was called")
	}
}

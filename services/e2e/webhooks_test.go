package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"slipway.dev/services/internal/testkit"
)

// awaitMessages waits until a receiver has accepted messages, and no others.
func awaitMessages(t *testing.T, r *testkit.HookReceiver, want ...string) {
	t.Helper()
	if err := within(3*time.Minute, func() error { return r.Differs(want...) }); err != nil {
		t.Fatal(err)
	}
}

// TestWebhooks requests the same image as two users while it is built, and an image that cannot
// be built. The receiver fails meanwhile, and the platform is killed: all messages must arrive.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	channel := newArtifacts(t)
	const artifact, lost = "libzlib-1.2.13-h31becfc_5.conda", "c-ares-1.21.0-h31becfc_0.conda"
	channel.answer(lost, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	more := bare(channel.URL)
	more["egress_allow"], more["master_key_file"] = "127.0.0.0/8", newMasterKey(t)
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		release := make(chan struct{})
		channel.counting(artifact, release, artifact)
		ok := func(args ...string) string {
			t.Helper()
			out, errs, err := p.slipway(args...)
			if err != nil {
				t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, errs)
			}
			return out
		}
		r, theirs := testkit.NewHookReceiver(t), testkit.NewHookReceiver(t)
		r.Verify(ok("webhooks", "create", r.URL+"/a?key=secret"))
		id := ok("webhooks", "list", "-o", "name")
		if out := ok("webhooks", "test", id); !strings.Contains(out, "DELIVERED") {
			t.Errorf("the test printed %s", out)
		}
		other := p.newUser("other")
		made := p.platformCall(http.MethodPost, "/webhooks", other, map[string]any{"url": theirs.URL, "events": []string{"container.*"}})
		theirs.Verify(text(made, "secret"))

		r.AnswerStatus(http.StatusBadGateway)
		answer := p.order(environment(base, "libzlib"), "Authorization", "Bearer "+p.token)
		joined := p.order(environment(base, "libzlib"), "Authorization", "Bearer "+other)
		if text(joined, "buildId") != text(answer, "buildId") {
			t.Fatalf("the second request got another build: %v, %v", joined, answer)
		}
		failing := p.order(environment(base, "c-ares"), "Authorization", "Bearer "+p.token)
		if s := p.finished(t, failing); s["succeeded"] != false {
			t.Errorf("the build of a lost package ended as %v", s)
		}
		close(release)
		p.finished(t, answer)
		platform := p.procs[0]
		if len(p.procs) > 1 {
			platform = p.process("platform")
		}
		platform.kill()
		r.Answer(nil)
		platform.start()
		build, failed := text(answer, "buildId"), text(failing, "buildId")
		awaitMessages(t, r, "webhook.test "+id, "build.started "+build, "build.succeeded "+build, "container.ready "+text(answer, "requestId"),
			"build.started "+failed, "build.failed "+failed, "container.failed "+text(failing, "requestId"))
		awaitMessages(t, theirs, "container.ready "+text(joined, "requestId"))
		if out := ok("webhooks", "deliveries", id, "--status", "delivered", "-o", "name"); len(strings.Fields(out)) != 7 {
			t.Errorf("the deliveries are %s", out)
		}
		first := strings.Fields(ok("webhooks", "deliveries", id, "-o", "name"))[0]
		if out := ok("webhooks", "message", id, first); !strings.Contains(out, `"specversion":"1.0"`) {
			t.Errorf("the message is %s", out)
		}
		ok("webhooks", "repeat", id, first)
		ok("webhooks", "update", id, "--disable")
		if _, errs, err := p.slipway("webhooks", "test", id); err == nil || !strings.Contains(errs, "The webhook is disabled") {
			t.Errorf("the test of a disabled webhook: %v %s", err, errs)
		}
		ok("webhooks", "delete", id)
	})
}

// TestWebPageOfWebhooks creates a webhook on the page, sends a test, and deletes it.
func TestWebPageOfWebhooks(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p := oneProcess(t, common(t, nil, settings{"egress_allow": "127.0.0.0/8"}))
	r := testkit.NewHookReceiver(t)
	b := openTab(t, browser, p.url+"/view/webhooks")
	b.signIn(adminToken)
	b.fill("#url", "ftp://127.0.0.1"+kb.Enter)
	b.await(`document.querySelector(".fields .problem")?.innerText.includes("https or http URL")`)
	b.eval(`document.querySelector("#url").value = ""`)
	b.fill("#url", r.URL+"/hook"+kb.Enter)
	b.await(`document.querySelector("#webhooks .copied code")`)
	r.Verify(b.text(`document.querySelector("#webhooks .copied code").innerText`))
	b.await(`document.querySelector("#webhooks summary")`)
	b.eval(`document.querySelector("#webhooks summary").click()`)
	b.await(`document.querySelector("#webhooks .empty")`)
	b.eval(`[...document.querySelectorAll("#webhooks details button")].find((x) => x.innerText === "Send a test").click()`)
	b.await(`document.querySelector("#webhooks .rows .rows .note")?.innerText.includes("delivered")`)
	b.good("webhooks", p.url)
	b.eval(`[...document.querySelectorAll("#webhooks .aside button")].find((x) => x.innerText.startsWith("Disable")).click()`)
	b.await(`document.querySelector("#webhooks .what .note")?.innerText.includes("disabled")`)
	b.eval(`[...document.querySelectorAll("#webhooks .sure")].at(-1).querySelector("button").click()`)
	b.await(`document.querySelector("#webhooks .bad")`)
	b.eval(`document.querySelector("#webhooks .bad").click()`)
	b.await(`!document.querySelector("#webhooks .rows")`)
}

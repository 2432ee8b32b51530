package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestWebPageSearchesTheLog searches a log that is longer than what the page shows at once, and opens one of its lines.
func TestWebPageSearchesTheLog(t *testing.T) {
	t.Parallel()
	const build, lines = "/v1alpha1/builds/0123456789abcdef_1", 12_000
	var events, raw strings.Builder
	for n := 1; n <= lines; n++ {
		text := fmt.Sprintf("line %d", n)
		if n == 50 || n == 6000 || n == 11_990 {
			text += " \x1b[31mNeedle\x1b[0m"
		}
		if n%1000 == 1 {
			fmt.Fprintf(&events, "event: time\nid: %d\ndata: 2026-01-31T12:%02d:07.250Z\n\n", n-1, n/1000)
		}
		fmt.Fprintf(&events, "event: log\nid: %d\ndata: %s\n\n", n, text)
		fmt.Fprintln(&raw, text)
	}
	events.WriteString("event: done\nid: 12000\ndata: {\"succeeded\":true}\n\n")
	answers := map[string][2]string{
		build:             {"application/json", `{"buildId":"0123456789abcdef_1","status":"COMPLETED","succeeded":true}`},
		build + "/events": {"text/event-stream", events.String()},
		build + "/logs":   {"text/plain", raw.String()},
	}
	browser := newChromium(t)
	p, _ := webProgram(t)
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	good := httputil.NewSingleHostReverseProxy(at)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			good.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", answer[0])
		_, _ = io.WriteString(w, answer[1])
	}))
	t.Cleanup(front.Close)

	const found, said = `document.querySelector(".log .found")?.id`, `document.querySelector(".bar .note").innerText`
	const inView = `(() => { const l = document.querySelector("#%[1]s")?.getBoundingClientRect(), b = document.querySelector(".log").getBoundingClientRect(); return l && l.top >= b.top && l.bottom <= b.bottom })()`
	b := openTab(t, browser, front.URL+"/view/builds/0123456789abcdef_1")
	b.await(`document.querySelectorAll(".log div").length === 5000 && document.querySelector(".log").innerText.endsWith("line 12000")`)
	b.put(".find", "needle")
	b.await(said + ` === "3 lines"`)
	b.press(kb.Enter)
	for _, step := range []struct{ id, said, button string }{
		{"L50", "1 of 3 lines", "Next match"}, {"L6000", "2 of 3 lines", "Next match"}, {"L11990", "3 of 3 lines", "Next match"}, {"L50", "1 of 3 lines", "Previous match"}, {"L11990", "3 of 3 lines", ""},
	} {
		b.await(found + ` === "` + step.id + `" && ` + said + ` === "` + step.said + `"`)
		b.await(fmt.Sprintf(inView, step.id))
		if got := b.text(`document.querySelector(".log .found mark").innerText`); got != "Needle" {
			t.Errorf("%s marks %q", step.id, got)
		}
		if step.button != "" {
			b.eval(`document.querySelector("[aria-label='` + step.button + `']").click()`)
		}
	}
	const moment = `document.querySelector("#L11990 time")`
	const isShown = moment + `.getClientRects().length > 0`
	if shown := b.text(isShown); shown != "false" {
		t.Error("times are shown although they were not chosen")
	}
	b.eval(button("Times") + ".focus()")
	b.press(" ")
	b.await(isShown)
	if got := b.text(moment + `.title + " " + ` + moment + `.dateTime + " " + (` + moment + `.dataset.at === new Date(` + moment + `.dateTime).toTimeString().slice(0, 8))`); got != "2026-01-31 12:11:07.250 UTC 2026-01-31T12:11:07.250Z true" {
		t.Errorf("the time of a line is %s", got)
	}
	b.eval(button("Wrap") + ".click()")
	b.await(`getComputedStyle(document.querySelector(".log")).whiteSpace === "pre"`)

	b.visit(front.URL + "/view/inspect")
	b.visit(front.URL + "/view/builds/0123456789abcdef_1#L60")
	b.await(fmt.Sprintf(inView, "L60"))
	b.eval(`location.hash = "L7300"`)
	b.await(fmt.Sprintf(inView, "L7300"))
	if pressed := b.text(button("Times") + `.getAttribute("aria-pressed")`); pressed != "true" {
		t.Error("another page has forgotten that times are shown")
	}
}

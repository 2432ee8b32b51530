package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestWebPageOfLimits sets, searches and deletes limits of an organisation, a workspace and a user on the
// page of administrators. Other users only learn that they may not.
func TestWebPageOfLimits(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, settings{"limit_platform": "0"}, func(t *testing.T, p *program) {
		eve := p.newUser("eve")
		p.makeWorkspace("lab", "rnaseq")
		b := openTab(t, browser, p.url+"/view/admin/limits")
		b.signIn(p.token)
		b.await(`document.querySelector(".empty")`)
		b.good("no limits", p.url)
		choose := func(id, value string) {
			b.eval(`(() => { const s = document.querySelector("#` + id + `"); s.value = "` + value + `"; s.dispatchEvent(new Event("change", {bubbles: true})); })()`)
		}
		set := func(of, name, kind, value string) {
			choose("of", of)
			choose("kind", kind)
			b.fill("#whose", name)
			b.fill("#value", value+kb.Enter)
		}
		set("organization", "lab", "builds", "many")
		b.await(`document.querySelector(".problem")?.innerText.includes("e.g. 250/1h")`)
		set("organization", "lab", "requestDays", "0.5")
		b.await(`document.querySelector(".problem")?.innerText.includes("whole number of days")`)
		choose("of", "workspace")
		b.await(`document.querySelector("#kind").value === "builds" && !document.querySelector("#kind [value=requestDays]")`)
		set("user", "nobody", "builds", "1/1h")
		b.await(`document.querySelector(".problem")?.innerText.includes("no user")`)
		for i, c := range []struct{ of, name, kind, value, shown string }{
			{"organization", "lab", "builds", "250/1h", "builds: 250/1h"},
			{"organization", "lab", "requestDays", "30", "days to store expired container requests: 30"},
			{"workspace", "lab/rnaseq", "runningBuilds", "4", "builds at a time: 4"},
			{"user", "eve", "pulls", "0", "no limit of pulls"},
		} {
			set(c.of, c.name, c.kind, c.value)
			b.await(`document.querySelectorAll(".rows li").length === ` + strconv.Itoa(i+1) + ` && [...document.querySelectorAll(".rows li")].some((l) => l.innerText.startsWith("` + c.name + `") && l.innerText.includes("` + c.shown + `"))`)
		}
		b.await(`!document.querySelector(".problem") && document.querySelector("[role=status]").innerText.includes("eve has no limit of pulls")`)
		b.good("limits", p.url)
		list := p.call(http.MethodGet, "/api/admin/limits", nil, "Authorization", "Bearer "+p.token)
		for _, want := range []string{`"value":"250/1h"`, `"kind":"runningBuilds"`, `"name":"eve"`} {
			if !strings.Contains(string(list.body), want) {
				t.Errorf("the server has %s, without %s", list.body, want)
			}
		}
		b.fill("#search", "rnaseq")
		b.await(`document.querySelectorAll(".rows li").length === 1`)
		b.eval(`document.querySelector(".rows li button").click()`)
		b.await(`document.querySelector(".rows .bad")`)
		b.eval(`document.querySelector(".rows .bad").click()`)
		b.await(`document.querySelector(".empty")?.innerText.includes("No limit matches")`)
		if r := p.call(http.MethodGet, "/api/admin/limits", nil, "Authorization", "Bearer "+p.token); strings.Contains(string(r.body), "runningBuilds") {
			t.Errorf("the server still has %s", r.body)
		}

		theirs := openTab(t, browser, p.url+"/view/admin/limits")
		theirs.signIn(eve)
		theirs.await(`document.querySelector(".empty")?.innerText.includes("Only administrators")`)
		theirs.good("limits refused", p.url)
		if places := theirs.text(`[...document.querySelectorAll("form")].length`); places != "0" {
			t.Error("a form is shown to a user who may not set limits")
		}
	})
}

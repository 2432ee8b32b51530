package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"slipway.dev/services/internal/testkit"
)

// fill replaces the text of a field.
func (b *tab) fill(field, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.querySelector(%q)", field))
	b.eval(fmt.Sprintf("document.querySelector(%q).focus(); document.querySelector(%q).select()", field, field))
	b.press(text)
}

// TestWebPageOfLogins tests logins before they are stored, shows the results, and shows no
// password.
func TestWebPageOfLogins(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	up, channel := testkit.NewRegistry(t, testkit.Basic), newLab(t)
	channel.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer let me in" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, labPackages)
	})
	s := bare(channel.URL)
	s["master_key_file"] = newMasterKey(t)
	eachShape(t, []string{up.Host}, s, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/view/logins")
		b.signIn(adminToken)
		b.fill("#registry", up.Host)
		b.fill("#user", testkit.User)
		b.fill("#password", "wrong"+kb.Enter)
		b.await(`document.querySelector(".failed .why")?.innerText.includes("does not accept this login")`)
		b.await(`document.querySelector(".empty")`)
		b.good("login of a registry refused", p.url)
		b.fill("#password", testkit.Password+kb.Enter)
		b.await(`document.querySelector(".verdict.good")?.innerText.includes("accepts this login") && document.querySelectorAll(".rows li").length === 1`)
		b.await(`document.querySelector("#password").value === ""`)

		b.eval(`document.querySelector("[value=conda]").click()`)
		b.fill("#registry", channel.URL+"/private")
		b.fill("#password", "wrong"+kb.Enter)
		b.await(`document.querySelector(".failed .why")?.innerText.includes("was not stored")`)
		b.fill("#password", "let me in"+kb.Enter)
		b.await(`document.querySelector(".verdict.good")?.innerText.includes("accepts this login") && document.querySelectorAll(".rows li").length === 2`)
		b.good("logins", p.url)
		if shown := b.text("document.documentElement.outerHTML + JSON.stringify(sessionStorage)"); strings.Contains(shown, testkit.Password) || strings.Contains(shown, "let me in") {
			t.Error("the page still contains a password")
		}
		// Logins of a workspace are tested too, with the permissions of the workspace.
		lab := p.call(http.MethodPost, "/api/orgs", map[string]any{"organization": map[string]any{"name": "lab", "fullName": "lab"}}, "Authorization", "Bearer "+p.token).json(t)
		org, _ := lab["organization"].(map[string]any)
		p.call(http.MethodPost, fmt.Sprintf("/api/orgs/%.0f/workspaces", org["orgId"]), map[string]any{"workspace": map[string]any{"name": "rnaseq", "fullName": "rnaseq", "visibility": "PRIVATE"}}, "Authorization", "Bearer "+p.token)
		b.eval("location.reload()")
		b.await(`document.querySelector("#space option:last-child")?.innerText.includes("rnaseq")`)
		b.eval(`const s = document.querySelector("#space"); s.value = s.options[s.options.length - 1].value; s.dispatchEvent(new Event("change", {bubbles: true}))`)
		b.await(`document.querySelector(".empty")`)
		b.eval(`document.querySelector("[value=conda]").click()`)
		b.fill("#registry", channel.URL+"/theirs")
		b.fill("#password", "wrong"+kb.Enter)
		b.await(`document.querySelector(".failed .why")?.innerText.includes("was not stored")`)
		b.fill("#password", "let me in"+kb.Enter)
		b.await(`document.querySelector(".verdict.good")?.innerText.includes("a participant of the workspace builds") && document.querySelectorAll(".rows li").length === 1`)
		b.eval(`const t = document.querySelector("#space"); t.value = t.options[0].value; t.dispatchEvent(new Event("change", {bubbles: true}))`)
		b.await(`document.querySelectorAll(".rows li").length === 2`)

		for range 2 {
			b.eval(`document.querySelector(".rows button").focus()`)
			b.press(kb.Enter)
			b.await(`document.activeElement.innerText.startsWith("Yes, remove")`)
			before := b.text(`document.querySelectorAll(".rows li").length`)
			b.press(kb.Enter)
			b.await(`document.querySelectorAll(".rows li").length < ` + before)
		}
		if r := p.call(http.MethodGet, "/api/credentials", nil, "Authorization", "Bearer "+p.token); !strings.Contains(string(r.body), "[]") {
			t.Errorf("not deleted: %s", r.body)
		}
	})
}

// TestWebPageOfWorkspaces creates an organisation and a workspace, and adds a participant.
func TestWebPageOfWorkspaces(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		eve := p.newUser("eve")
		b := openTab(t, browser, p.url+"/view/workspaces")
		b.signIn(adminToken)
		b.await(`document.querySelector(".empty")`)
		b.good("no workspaces", p.url)
		b.fill("#organisation", "no name"+kb.Enter)
		b.await(`document.querySelector(".problem")?.innerText.includes("name")`)
		b.fill("#organisation", "lab"+kb.Enter)
		b.await(`document.querySelector(".head h2")?.innerText === "lab"`)
		b.eval(`document.querySelector("[id^=workspace-]").focus()`)
		b.press("rnaseq" + kb.Enter)
		b.await(`document.querySelector(".rows .what a")?.innerText === "rnaseq"`)
		b.good("workspaces", p.url)
		b.eval(`document.querySelector(".rows .what a").focus()`)
		b.press(kb.Enter)
		b.fill("#who", "nobody at all"+kb.Enter)
		b.await(`document.querySelector(".problem")?.innerText`)
		b.fill("#who", "eve"+kb.Enter)
		b.await(`[...document.querySelectorAll(".rows strong")].some((n) => n.innerText === "eve")`)
		row := `[...document.querySelectorAll(".rows li")].find((l) => l.innerText.startsWith("eve"))`
		b.eval(row + `.querySelector("select").value = "view"; ` + row + `.querySelector("select").dispatchEvent(new Event("change"))`)
		b.await(row + `?.querySelector("select").value === "view"`)
		b.good("participants", p.url)
		b.await(`!document.querySelector(".problem")`)

		theirs := openTab(t, browser, p.url+"/view/workspaces")
		theirs.signIn(eve)
		theirs.await(`document.querySelector(".rows .note")?.innerText.includes("view")`)
		b.eval(row + `.querySelector("button").click()`)
		b.await(row + `.querySelector(".bad")`)
		b.eval(row + `.querySelector(".bad").click()`)
		b.await("!" + row)
		p.administerRobots(t, b)
		theirs.eval(`document.querySelector(".rows .what a")?.click()`)
		if n := theirs.text(`document.querySelectorAll("#robots").length`); n != "0" {
			t.Error("the robots are shown to a user who may not see them")
		}
	})
}

// administerRobots creates a robot with a token on the page of a workspace, and deletes both.
func (p *program) administerRobots(t *testing.T, b *tab) {
	t.Helper()
	b.fill("#robot", "No Name"+kb.Enter)
	b.await(`document.querySelector("#robots .problem")?.innerText.includes("lower-case")`)
	b.fill("#robot", "ci"+kb.Enter)
	b.await(`document.querySelector("#robots .rows strong")?.innerText === "ci" && !document.querySelector("#robots .problem")`)
	b.eval(`document.querySelector("#robots summary").focus()`)
	b.press(kb.Enter)
	b.await(`document.querySelector("#robots [id^=token-]")`)
	b.eval(`document.querySelector("#robots [id^=token-]").focus()`)
	b.press("cluster" + kb.Enter)
	b.await(`document.querySelector("#robots .copied code") && document.querySelector("#robots .rows .rows strong")?.innerText === "cluster"`)
	b.good("robots", p.url)
	secret := b.text(`document.querySelector("#robots .copied code").innerText`)
	user := func() reply { return p.call(http.MethodGet, "/api/user-info", nil, "Authorization", "Bearer "+secret) }
	if r := user(); r.status != http.StatusOK || !strings.Contains(string(r.body), "robot:lab/rnaseq/ci") {
		t.Errorf("the robot is %d %s", r.status, r.body)
	}
	b.eval(`document.querySelector("#robots .rows > li > .sure button").click()`)
	b.await(`document.querySelector("#robots .bad")`)
	b.eval(`document.querySelector("#robots .bad").click()`)
	b.await(`!document.querySelector("#robots .rows")`)
	if r := user(); r.status != http.StatusForbidden {
		t.Errorf("the token of the deleted robot got %d", r.status)
	}
}

// TestWebPageOfOperators shows the metrics to the administrator; other users see neither them
// nor the link to them.
func TestWebPageOfOperators(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachWebProgram(t, func(t *testing.T, p *program, base string) {
		eve := p.newUser("eve")
		b := openTab(t, browser, p.url+"/view/runs")
		b.signIn(adminToken)
		if r := p.call(http.MethodPost, "/v1alpha2/container", environment(base, "samtools"), "Authorization", "Bearer "+p.token); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		} else {
			pull(t, text(r.json(t), "targetImage"), "amd64")
		}
		if r := p.call(http.MethodGet, "/v1alpha1/conda/packages?q=samtools", nil); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		b.await(`[...document.querySelectorAll(".places a")].at(-1)?.innerText === "Service"`)
		b.eval(`[...document.querySelectorAll(".places a")].at(-1).click()`)
		b.await(`document.querySelectorAll(".plot").length === 2`)
		b.await(`document.querySelectorAll(".rows:not(.workers) li").length >= 4`)
		b.await(`document.querySelector(".workers .note")?.innerText.includes("conda/")`)
		b.await(`/Images that were built\s[1-9].*B\s/.test(document.querySelector('[aria-label="Storage"] tbody')?.innerText) ||
			[...document.querySelectorAll(".empty")].some((e) => e.innerText.startsWith("Each role is a process of its own"))`)
		for _, c := range []struct {
			header []string
			status int
		}{{nil, http.StatusUnauthorized}, {[]string{"Authorization", "Bearer " + eve}, http.StatusForbidden}, {[]string{"Authorization", "Bearer " + p.token}, http.StatusOK}} {
			for _, path := range []string{"/v1alpha1/queue", "/v1alpha1/conda/channels", "/v1alpha2/metrics/storage"} {
				if r := p.call(http.MethodGet, path, nil, c.header...); r.status != c.status {
					t.Errorf("%s returned %d to %v, want %d", path, r.status, c.header, c.status)
				}
			}
		}
		if err := within(time.Minute, func() error {
			b.eval("location.reload()")
			b.await(`document.querySelectorAll(".plot").length === 2 && document.querySelector(".workers li") && document.querySelector("table button") &&
				document.querySelector('[aria-label="Conda channels"] tbody')?.innerText.includes("conda-forge")`)
			if rows := b.text(`[...document.querySelectorAll(".behind tr")].map((r) => [...r.children].map((c) => c.textContent).join(" ")).join()`); !strings.Contains(rows, time.Now().UTC().Format(time.DateOnly)+" 1") {
				return fmt.Errorf("the days are %s", rows)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		b.good("service", p.url)

		b = openTab(t, browser, p.url+"/view/runs")
		b.signIn(eve)
		b.await(`document.querySelector(".empty")`)
		if places := b.text(`document.querySelector(".places").innerText`); strings.Contains(places, "Service") {
			t.Errorf("the page offers %s to eve", places)
		}
		b.visit(p.url + "/view/service")
		b.await(`document.querySelector(".empty")?.innerText.includes("administrator") && document.querySelectorAll(".rows li").length >= 4`)
		b.await(`document.querySelectorAll(".failed").length === 0`)
		b.good("service refused", p.url)
	})
}

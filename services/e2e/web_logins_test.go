package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
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

// rowsOf returns the texts of the listed logins, as JavaScript.
const rowsOf = `[...document.querySelectorAll(".rows li")].map((l) => l.innerText).join("|")`

// addChannelLogin fills the form of a login for a channel and submits it. way is the user name that
// selects how the channel authenticates; "" selects a user name and password.
func (b *tab) addChannelLogin(address, way, user, password string) {
	b.t.Helper()
	b.eval(`document.querySelector("[value=conda]").click()`)
	b.await(`document.querySelector("#way")`)
	b.eval(fmt.Sprintf(`(() => { const way = document.querySelector("#way"); way.value = %q; way.dispatchEvent(new Event("change", {bubbles: true})); })()`, way))
	b.fill("#registry", address)
	if way == "" {
		b.fill("#user", user)
	} else {
		b.await(`!document.querySelector("#user")`)
	}
	b.fill("#password", password+kb.Enter)
}

// rejected waits for a problem of the login that was added last.
func (b *tab) rejected(title, why string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelector(".failed h2")?.innerText === %q && document.querySelector(".failed .why").innerText.includes(%q)`, title, why))
}

// listed waits until the page lists a number of logins.
func (b *tab) listed(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf(`document.querySelectorAll(".rows li").length === %d`, n))
}

// TestWebPageOfLogins tests logins before they are stored, shows the results, and shows no
// password. The channel requires a login of each kind.
func TestWebPageOfLogins(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	const secret = "let me in"
	up := testkit.NewRegistry(t, testkit.Basic)
	channel, outage := privateLab(t, secret)
	s := bare(channel.URL)
	s["master_key_file"] = newMasterKey(t)
	eachShape(t, []string{up.Host}, s, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/view/logins")
		b.signIn(adminToken)
		b.fill("#registry", up.Host)
		b.fill("#user", testkit.User)
		b.fill("#password", "wrong"+kb.Enter)
		b.rejected("The login was not stored", "does not accept this login")
		b.await(`document.querySelector(".empty")`)
		b.good("login of a registry refused", p.url)
		b.fill("#password", testkit.Password+kb.Enter)
		b.await(`document.querySelector(".verdict.good")?.innerText.includes("accepts this login") && document.querySelectorAll(".rows li").length === 1`)
		b.await(`document.querySelector("#password").value === ""`)

		host := strings.TrimPrefix(channel.URL, "http://")
		for i, c := range []struct{ path, way, user, shown string }{
			{"/bearer/lab", "bearer", "", "a Bearer token"}, {"/path/lab", "token", "", "a token in the address"}, {"/basic/lab", "", "ada", "ada"},
		} {
			b.addChannelLogin(channel.URL+c.path, c.way, c.user, "wrong")
			b.rejected("The login was not stored", "does not accept your login")
			b.listed(i + 1)
			b.addChannelLogin(channel.URL+c.path+"/", c.way, c.user, secret)
			b.await(fmt.Sprintf(`document.querySelector(".verdict.good")?.innerText.includes("The channel %s can be read with this login stored")`, channel.URL+c.path))
			b.listed(i + 2)
			b.await(fmt.Sprintf(`document.querySelector("#password").value === "" && document.querySelector("#way").value === %q`, c.way))
			b.await(fmt.Sprintf(`%s.includes(%q) && %s.includes("Conda channel · %s")`, rowsOf, host+c.path, rowsOf, c.shown))
			lock := lockOf(channel.URL+c.path, "explicit", "samtools")
			if r := p.call(http.MethodPost, "/v1alpha1/conda/lock", lock, "Authorization", "Bearer "+p.token); r.status != http.StatusOK {
				t.Errorf("with the login %s is %d %s", c.path, r.status, r.body)
			}
			if r := p.call(http.MethodPost, "/v1alpha1/conda/lock", lock); r.status != http.StatusForbidden {
				t.Errorf("another user gets %d %s of %s", r.status, r.body, c.path)
			}
		}
		b.good("logins", p.url)
		b.addChannelLogin(strings.Replace(channel.URL, "//", "//ada:"+secret+"@", 1)+"/basic/lab", "bearer", "", secret)
		b.rejected("The login was not stored", "The address contains a login")
		b.addChannelLogin("oci://ghcr.io/team/lab", "token", "", secret)
		b.rejected("The login was not stored", "needs a user name and a password")
		b.addChannelLogin(channel.URL+"/basic/lab", "", "bearer", secret)
		b.rejected("The login was not stored", "is reserved for tokens")
		b.testLater(t, channel.URL, secret, outage)
		if shown := b.text("document.documentElement.outerHTML + JSON.stringify(sessionStorage)"); strings.Contains(shown, testkit.Password) || strings.Contains(shown, secret) {
			t.Error("the page still contains a password")
		}
		p.storeWorkspaceLogins(t, browser, channel.URL, secret)

		b.listed(5)
		for range 5 {
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

// testLater adds logins to the four that are listed while the channel cannot be read. They must be
// stored, and tested again when the user requests it: then one of them is refused.
func (b *tab) testLater(t *testing.T, channel, secret string, outage *atomic.Int32) {
	t.Helper()
	defer outage.Store(0)
	again := func(ended string) {
		outage.Store(0)
		if err := within(2*time.Minute, func() error { // a channel is not read again immediately after a failure
			b.eval(button("Test it again") + "?.click()")
			time.Sleep(time.Second)
			if b.text(ended) != "true" {
				return fmt.Errorf("after another test the page shows %s", b.text(`document.querySelector("form").innerText`))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	const isStored = "The login is stored, but could not be tested"
	outage.Store(http.StatusServiceUnavailable)
	b.addChannelLogin(channel+"/bearer/later", "bearer", "", secret)
	b.rejected(isStored, "is unavailable")
	b.listed(5)
	b.good("login not tested", b.text("location.origin"))
	again(`!!document.querySelector(".verdict.good")?.innerText.includes("/bearer/later can be read with this login stored")`)
	outage.Store(http.StatusTooManyRequests)
	b.addChannelLogin(channel+"/bearer/later", "bearer", "", "wrong")
	b.rejected(isStored, "limits the rate of requests")
	b.listed(6)
	again(`document.querySelector(".failed h2")?.innerText === "The login was not stored"`)
	b.listed(5)
}

// storeWorkspaceLogins adds a login to a workspace as its administrator. A user who only views the
// workspace must not be able to.
func (p *program) storeWorkspaceLogins(t *testing.T, browser context.Context, channel, secret string) {
	t.Helper()
	space := p.makeWorkspace("lab", "rnaseq")
	for name, role := range map[string]string{"eve": "admin", "max": "view"} {
		b, token := openTab(t, browser, p.url+"/view/logins?workspace="+space), p.newUser(name)
		for _, args := range [][]string{{"member", "add", "lab", name}, {"member", "add", "lab/rnaseq", name, "--role", role}} {
			if out, errs, err := p.slipway(args...); err != nil {
				t.Fatalf("%q: %s %s %v", args, out, errs, err)
			}
		}
		b.signIn(token)
		b.await(`document.querySelector("#space")?.selectedOptions[0].innerText === "lab / rnaseq"`)
		if role == "view" {
			b.addChannelLogin(channel+"/bearer/theirs", "bearer", "", secret)
			b.rejected("The login was not stored", "role")
			b.good("login of a viewer", p.url)
			continue
		}
		b.addChannelLogin(channel+"/bearer/theirs", "bearer", "", "wrong")
		b.rejected("The login was not stored", "does not accept your login")
		b.listed(0)
		b.addChannelLogin(channel+"/bearer/theirs", "bearer", "", secret)
		b.await(`document.querySelector(".verdict.good")?.innerText.includes("a participant of the workspace builds")`)
		b.listed(1)
		b.eval(`(() => { const s = document.querySelector("#space"); s.value = s.options[0].value; s.dispatchEvent(new Event("change", {bubbles: true})); })()`)
		b.listed(0)
	}
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
	b.fill("#robot-more", "First")
	b.fill("#robot", "ci"+kb.Enter)
	b.await(`document.querySelector("#robots .rows strong")?.innerText === "ci" && !document.querySelector("#robots .problem")`)
	b.await(`document.querySelector("#robot-more").value === ""`)
	b.eval(`document.querySelector("#robots summary").focus()`)
	b.press(kb.Enter)
	b.await(`document.querySelector("#robots [id^=role-]")?.value === "launch"`)
	selectRole := func(role string) {
		b.eval(fmt.Sprintf(`{ const role = document.querySelector("#robots [id^=role-]"); role.value = %q; role.dispatchEvent(new Event("change", { bubbles: true })); }`, role))
	}
	save := func(want string) {
		b.eval(`document.querySelector("#robots .change button").click()`)
		b.await(fmt.Sprintf(`document.querySelector("#robots .rows .note")?.innerText.startsWith(%q)`, want))
	}
	selectRole("connect")
	save("connect · First · ")
	// Another admin changes what the page does not show yet.
	p.changeRobotOfPage(t, b, map[string]any{"role": "view"})
	b.fill("#robots [id^=about-]", "Pulls for the cluster")
	save("view · Pulls for the cluster · ")
	p.changeRobotOfPage(t, b, map[string]any{"description": "Reads runs"})
	selectRole("connect")
	save("connect · Reads runs · ")
	if role := b.text(`document.querySelector("#robots [id^=role-]").value`); role != "connect" {
		t.Errorf("the form has the role %s", role)
	}
	b.eval(`document.querySelector("#robots summary.tokens").focus()`)
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

// changeRobotOfPage changes the robot of a page, which does not load the change.
func (p *program) changeRobotOfPage(t *testing.T, b *tab, change map[string]any) {
	t.Helper()
	list, err := url.Parse(b.text(`performance.getEntriesByType("resource").map((r) => r.name).find((r) => /\/api\/orgs\/\d+\/robots\?/.test(r))`))
	if err != nil {
		t.Fatal(err)
	}
	header := []string{"Authorization", "Bearer " + p.token}
	robots, _ := p.call(http.MethodGet, list.RequestURI(), nil, header...).json(t)["robots"].([]any)
	if len(robots) != 1 {
		t.Fatalf("%s: %v", list, robots)
	}
	id, _ := robots[0].(map[string]any)["id"].(float64)
	if r := p.call(http.MethodPut, fmt.Sprintf("%s/%.0f?%s", list.Path, id, list.RawQuery), change, header...); r.status != http.StatusOK {
		t.Fatalf("changing the robot: %d %s", r.status, r.body)
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
		b.await(`[...document.querySelectorAll(".places a")].at(-1)?.innerText === "Limits"`)
		b.eval(`[...document.querySelectorAll(".places a")].at(-2).click()`)
		b.await(`document.querySelectorAll(".plot").length === 2`)
		b.await(`document.querySelectorAll(".rows:not(.workers):not(.health) li").length >= 4`)
		b.await(`[...document.querySelectorAll(".health li")].some((l) => /database\s+Works/.test(l.innerText)) && !document.querySelector(".clock")`)
		if p.redis != nil { // each role is a process, and the certificate of calls between roles expires within an hour
			b.await(`[...document.querySelectorAll(".health li")].some((l) => /certificates\s+optional\s+the certificate of rpc_cert_file expires on 20.*\s+Does not work/.test(l.innerText))`)
			b.await(`[...document.querySelectorAll("section .note")].some((n) => /^The certificate of rpc_cert_file expires on .*20\d\d/.test(n.innerText))`)
		}
		b.await(`document.querySelector(".workers .note")?.innerText.includes("conda/")`)
		b.await(`/Images that were built\s[1-9].*B\s/.test(document.querySelector('[aria-label="Storage"] tbody')?.innerText) ||
			[...document.querySelectorAll(".empty")].some((e) => e.innerText.startsWith("Each role is a process of its own"))`)
		for _, c := range []struct {
			header []string
			status int
		}{{nil, http.StatusUnauthorized}, {[]string{"Authorization", "Bearer " + eve}, http.StatusForbidden}, {[]string{"Authorization", "Bearer " + p.token}, http.StatusOK}} {
			for _, path := range []string{"/v1alpha1/queue", "/v1alpha1/conda/channels", "/v1alpha2/metrics/storage", "/v1alpha2/metrics/health"} {
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
		// The clock of the browser is ten minutes ahead.
		_, err := chromedp.Call(b.ctx(), cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: "const now = Date.now; Date.now = () => now() + 600000;"})
		b.must(err)
		b.eval("location.reload()")
		b.await(`/clock of the server is \d{3} seconds behind that of this browser/.test(document.querySelector(".clock")?.innerText)`)

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

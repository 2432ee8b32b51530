package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"slipway.dev/services/internal/testkit"
)

// signIn signs in with a token, using the keyboard only.
func (b *tab) signIn(token string) {
	b.t.Helper()
	b.await(`document.querySelector("#token")`)
	b.eval(`document.querySelector("#token").focus()`)
	b.press(token + kb.Enter)
	b.await(`document.querySelector(".menu > button") && !document.querySelector(".menu > button").innerText.startsWith("Account")`)
}

// visit opens another page of the site in the same tab.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("location.assign(%q)", url))
	b.await(fmt.Sprintf("location.href === %q && document.readyState === 'complete'", url))
}

// left is everything that scripts can store in a browser.
const left = `JSON.stringify([document.cookie, Object.entries(localStorage), Object.entries(sessionStorage), location.href, history.state])`

// cookies returns the cookies that the browser sends to the page's address, including those that scripts cannot
// read.
func (b *tab) cookies() []*network.Cookie {
	b.t.Helper()
	got, err := chromedp.Call(b.ctx(), network.GetCookies, network.GetCookiesParams{})
	b.must(err)
	return got.Cookies
}

// TestWebPageSignsIn checks that a token is verified before it begins a session, which scripts cannot read, and that
// the session lasts until the user signs out, for all tabs of the browser.
func TestWebPageSignsIn(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/")
		b.await(`document.querySelector("#account a")?.innerText === "Sign in"`)
		b.eval(`document.querySelector("#account a").focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelector("#token")`)
		b.good("login", p.url)
		b.eval(`document.querySelector("#token").focus()`)
		b.press("no token at all" + kb.Enter)
		b.await(`document.querySelector(".problem")?.innerText.includes("token") && document.activeElement.id === "token"`)
		if now, cookies := b.text(left), b.cookies(); len(cookies) != 0 || !strings.HasPrefix(now, `["",[],[],`) {
			t.Errorf("with an invalid token the browser stores %s and the cookies %v", now, cookies)
		}
		b.good("login refused", p.url)
		b.eval(`document.querySelector("#token").select()`)
		b.press(adminToken + kb.Enter)
		b.await(fmt.Sprintf(`location.href === %q && document.querySelector(".menu > button")?.innerText.startsWith("admin")`, p.url+"/"))
		if now := b.text(left); strings.Contains(now, adminToken) || !strings.HasPrefix(now, `["",[["slipway-session","{\"tokenId\":1,`) {
			t.Errorf("scripts can read %s", now)
		}
		if c := b.cookies(); len(c) != 1 || !c[0].HTTPOnly || c[0].SameSite != network.CookieSameSiteStrict || c[0].Session || !strings.HasPrefix(c[0].Name, "slipway-") {
			t.Errorf("the cookies are %v", c)
		}
		b.eval(`document.querySelector(".menu > button").focus()`)
		b.press(kb.Enter)
		b.await(`!document.querySelector("#menu").hidden`)
		b.good("menu", p.url)
		b.press(kb.Escape)
		b.await(`document.querySelector("#menu").hidden && document.activeElement.innerText.startsWith("admin")`)

		b.reload()
		b.await(`document.querySelector(".menu > button")?.innerText.startsWith("admin")`)
		other, waiting := openTab(t, b.ctx(), p.url+"/view/tokens"), openTab(t, browser, p.url+"/view/tokens")
		other.await(`document.querySelector(".rows .tag")?.innerText === "this page"`)
		waiting.await(`document.querySelector("#token")`) // another browser is not signed in

		b.eval(`document.querySelector(".menu > button").focus()`)
		b.press(kb.Enter)
		b.eval(`document.querySelector("#menu button").focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelector("#account a")?.innerText === "Sign in"`)
		if now, cookies := b.text(left), b.cookies(); now != fmt.Sprintf(`["",[],[],%q,null]`, p.url+"/") || len(cookies) != 0 {
			t.Errorf("after signing out the browser stores %s and the cookies %v", now, cookies)
		}
		other.await(`document.querySelector("#token") && !document.body.innerText.includes("this page")`)

		b.visit(p.url + "/view/tokens")
		b.signIn(adminToken)
		other.await(`document.querySelector(".rows .tag")?.innerText === "this page"`) // without a reload
	})
}

// TestWebPageKeepsSessionFromOtherPages checks that a page on another port, to which browsers send the same cookies,
// cannot use the session.
func TestWebPageKeepsSessionFromOtherPages(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/view/tokens")
		b.signIn(adminToken)
		b.await(`document.querySelector(".rows .tag")`)
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<!doctype html><title>foreign</title><iframe name="frame"></iframe>
<form method="post" action="%[1]s/session" target="frame"><input name="token" value="x"></form>
<script>
document.querySelector("form").submit();
const own = {"Slipway-Page": %[1]q, "Content-Type": "application/json"};
Promise.allSettled([
  fetch("%[1]s/api/user-info", {credentials: "include"}),
  fetch("%[1]s/api/user-info", {credentials: "include", headers: own}),
  fetch("%[1]s/api/user-info", {credentials: "include", headers: {"Slipway-Page": location.origin}}),
  fetch("%[1]s/session", {credentials: "include", method: "DELETE"}),
  fetch("%[1]s/session", {credentials: "include", method: "POST", headers: own, body: "{}"}),
  fetch("%[1]s/session", {credentials: "include", method: "POST", mode: "no-cors", body: "{}"}),
]).then((all) => { document.title = all.map((a) => a.status === "fulfilled" ? a.value.type : "blocked").join(" ") });
</script>`, p.url)
		}))
		t.Cleanup(page.Close)
		foreign := openTab(t, b.ctx(), page.URL)
		foreign.await(`document.title !== "foreign"`)
		if got := foreign.text("document.title"); got != "blocked blocked blocked blocked blocked opaque" {
			t.Errorf("the calls of the other page were %s", got)
		}
		b.reload()
		b.await(`document.querySelector(".rows .tag")?.innerText === "this page"`)
		// Even the page's own address is anonymous without the header.
		b.eval(`fetch("/api/user-info").then((r) => { document.title = "status " + r.status })`)
		b.await(`document.title === "status 403"`)
		for _, proc := range p.procs {
			if strings.Contains(proc.log(), adminToken) {
				t.Errorf("the token is in the log of %s", proc.name)
			}
		}
	})
}

// revoked creates a token, and returns a function that revokes it without the page.
func (p *program) revoked(name string) (token string, revoke func()) {
	p.t.Helper()
	made := p.call(http.MethodPost, "/api/tokens", map[string]any{"name": name}, "Authorization", "Bearer "+p.token).json(p.t)
	record, _ := made["token"].(map[string]any)
	return text(made, "accessKey"), func() {
		if r := p.call(http.MethodDelete, fmt.Sprintf("/api/tokens/%.0f", record["id"]), nil, "Authorization", "Bearer "+p.token); r.status != http.StatusNoContent {
			p.t.Fatalf("revoking: %d %s", r.status, r.body)
		}
	}
}

// TestWebPageShowsSignedOut checks that the page reports that its session has ended because the token was revoked
// elsewhere, after a reload and after a call of the page.
func TestWebPageShowsSignedOut(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p := oneProcess(t, common(t, nil, nil))
	token, revoke := p.revoked("for a while")
	b := openTab(t, browser, p.url+"/view/tokens")
	b.signIn(token)
	b.await(`document.querySelector(".rows .tag")?.innerText === "this page"`)
	revoke()
	b.eval("location.reload()")
	b.await(`document.querySelector(".failed h2")?.innerText === "You were signed out"`)
	b.good("signed out", p.url)
	token, revoke = p.revoked("for another while")
	b.signIn(token)
	b.await(`document.querySelector(".rows .tag")?.innerText === "this page"`)
	revoke()
	b.eval(`document.querySelector("#name").focus()`)
	b.press("laptop" + kb.Enter) // the call is rejected
	b.await(`document.querySelector(".failed h2")?.innerText === "You were signed out"`)
	if now, cookies := b.text(left), b.cookies(); !strings.HasPrefix(now, `["",[],[],`) || len(cookies) != 0 {
		t.Errorf("the browser still stores %s and the cookies %v", now, cookies)
	}
}

// TestWebPageOfTokens creates a valid token, shows it once, and revokes it.
func TestWebPageOfTokens(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		p.makeWorkspace(strings.Repeat("o", 40), strings.Repeat("w", 40)) // a wide entry of the list
		b := openTab(t, browser, p.url+"/view/tokens")
		b.signIn(adminToken)
		b.await(`document.querySelector("#within")`)
		b.eval(`const use = document.querySelector("#use"); use.value = "1"; use.dispatchEvent(new Event("change"))`)
		b.eval(`document.querySelector("#name").focus()`)
		b.press(probe + kb.Enter) // the field accepts 50 characters
		b.await(`[...document.querySelectorAll(".rows strong")].some((n) => n.innerText.startsWith("<img"))`)
		b.await(`document.querySelector(".copied code")`)
		secret := b.text(`document.querySelector(".copied code").innerText`)
		if r := p.call(http.MethodGet, "/api/user-info", nil, "Authorization", "Bearer "+secret); r.status != http.StatusOK {
			t.Errorf("the new token got %d", r.status)
		}
		p.call(http.MethodGet, "/v1alpha2/metrics/builds", nil, "Authorization", "Bearer "+secret).lacks(t, "the new token", "admin")
		b.await(`[...document.querySelectorAll(".rows li")].some((l) => l.innerText.includes("only pull, request"))`)
		b.good("tokens", p.url)
		b.eval("location.reload()")
		b.await(`document.querySelectorAll(".rows li").length === 2 && !document.querySelector(".copied")`)
		b.eval(`[...document.querySelectorAll(".rows li")].find((l) => l.innerText.includes("<img")).querySelector("button").focus()`)
		b.press(kb.Enter)
		b.await(`document.activeElement.innerText.startsWith("Yes, revoke")`)
		b.press(kb.Enter)
		b.await(`document.querySelectorAll(".rows li").length === 1`)
		if r := p.call(http.MethodGet, "/api/user-info", nil, "Authorization", "Bearer "+secret); r.status != http.StatusForbidden {
			t.Errorf("the revoked token got %d", r.status)
		}
		b.harmless()
	})
}

// harmless checks that no shown text was executed.
func (b *tab) harmless() {
	b.t.Helper()
	if b.text(`document.querySelectorAll("img[src*=probe], main script").length`) != "0" || b.text("document.title") == "run" {
		b.t.Error("shown text was executed")
	}
}

// report reports a run with tasks of several processes, like Nextflow does; the run continues
// until end is called.
func (p *program) report(query, name string) (watch string, end func()) {
	p.t.Helper()
	n := &plugin{t: p.t, p: p, query: query}
	made := n.ok(http.MethodPost, "/trace/create", map[string]any{"sessionId": "s-" + name, "runName": name, "projectName": "nf-core/rnaseq " + probe, "repository": "https://example.org"})
	id := text(made, "workflowId")
	var told map[string]any
	if err := json.Unmarshal([]byte("{"+traceWorkflow+"}"), &told); err != nil {
		p.t.Fatal(err)
	}
	began := time.Now().Add(-40 * time.Minute)
	told["runName"], told["start"], told["commandLine"] = name, began.Format(time.RFC3339), "nextflow run x "+probe
	n.ok(http.MethodPut, "/trace/"+id+"/begin", map[string]any{"workflow": told, "processNames": []string{"RNASEQ:FASTQC", "RNASEQ:STAR_ALIGN", "RNASEQ:" + probe}, "towerLaunch": false})
	var tasks []map[string]any
	at := func(minutes float64) string {
		return began.Add(time.Duration(minutes * float64(time.Minute))).Format(time.RFC3339)
	}
	for i := range 60 {
		kind := []string{"FASTQC", "STAR_ALIGN", probe}[i%3]
		from, long := float64(i)/2, 2+float64(i%7)*float64(1+i%3)
		t := map[string]any{
			"taskId": i + 1, "hash": fmt.Sprintf("%02x/%06x", i, i*7919), "process": "RNASEQ:" + kind, "name": fmt.Sprintf("RNASEQ:%s (sample %d %s)", kind, i, probe), "tag": probe,
			"status": "COMPLETED", "exit": 0, "submit": at(from), "start": at(from + 0.2), "complete": at(from + long), "duration": long * 60000, "realtime": (long - 0.2) * 60000,
			"pcpu": 60 + 35*float64(i%9), "cpus": 1 + i%3*3, "memory": float64(1+i%3*6) * (1 << 30), "peakRss": (0.3 + float64(i%5)*0.4*float64(1+i%3)) * (1 << 30), "attempt": 1,
			"script": "echo '" + probe + "'", "container": "quay.io/star:2", "executor": "slurm", "queue": "long", "workdir": "/work/" + probe,
		}
		switch {
		case i == 17:
			t["status"], t["exit"], t["errorAction"] = "FAILED", 137, "RETRY"
		case i > 50:
			t["status"], t["exit"], t["complete"], t["realtime"], t["pcpu"], t["peakRss"] = []string{"RUNNING", "SUBMITTED"}[i%2], 2147483647, nil, nil, nil, nil
		case i < 6:
			t["status"] = "CACHED"
		}
		tasks = append(tasks, t)
	}
	n.ok(http.MethodPut, "/trace/"+id+"/progress", map[string]any{"tasks": tasks})
	return text(made, "watchUrl"), func() {
		for _, t := range tasks[51:] {
			t["status"], t["exit"], t["complete"], t["realtime"], t["pcpu"], t["peakRss"] = "ABORTED", 2147483647, nil, nil, nil, nil
		}
		n.ok(http.MethodPut, "/trace/"+id+"/progress", map[string]any{"tasks": tasks[51:]})
		told["complete"], told["success"], told["exitStatus"] = time.Now().Format(time.RFC3339), false, 1
		told["errorMessage"], told["errorReport"] = "A task failed", "Error executing process > 'STAR_ALIGN'\n\nCaused by:\n  it ended with 137 "+probe
		n.ok(http.MethodPut, "/trace/"+id+"/complete", map[string]any{"workflow": told})
	}
}

// TestWebPageOfRuns opens the page of a run by its watchUrl. The page must refresh itself and
// show reported values as text.
func TestWebPageOfRuns(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/view/runs")
		b.signIn(adminToken)
		b.await(`document.querySelector(".empty")`)
		b.good("no runs", p.url)
		space := p.makeWorkspace("lab", "rnaseq")
		watch, end := p.report("workspaceId="+space, "sleepy_curie")
		own, _ := p.report("", "brave_noether")
		for i := range 26 {
			n := &plugin{t: t, p: p}
			n.ok(http.MethodPost, "/trace/create", map[string]any{"sessionId": fmt.Sprint("s", i), "runName": fmt.Sprintf("quiet_%d", i)})
		}
		if !strings.HasPrefix(own, p.url+"/user/admin/watch/") || !strings.HasPrefix(watch, p.url+"/orgs/lab/workspaces/rnaseq/watch/") {
			t.Fatalf("the runs are at %s and %s", own, watch)
		}

		b.eval("location.reload()")
		b.await(`document.querySelectorAll(".rows li").length === 25`)
		b.good("runs", p.url)
		b.eval(`[...document.querySelectorAll(".pager button")].at(-1).focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelectorAll(".rows li").length === 2 && document.querySelector(".pager [role=status]").innerText === "26–27 of 27"`)
		b.eval(`document.querySelector("#find").focus()`)
		b.press("noether" + kb.Enter)
		b.await(`document.querySelectorAll(".rows li").length === 1 && document.querySelector(".rows a").innerText === "brave_noether"`)
		if at := b.text(`document.querySelector(".rows a").href`); at != own {
			t.Errorf("the list links to %s", at)
		}
		b.eval(fmt.Sprintf(`document.querySelector("#space").value = %q; document.querySelector("#space").dispatchEvent(new Event("change"))`, space))
		b.eval(`document.querySelector("#find").select()`)
		b.press("curie" + kb.Enter)
		b.await(`document.querySelector(".rows a")?.innerText === "sleepy_curie"`)

		b.visit(watch)
		b.await(`document.querySelector("h1")?.innerText === "sleepy_curie" && document.querySelectorAll(".plot").length === 4 && document.querySelectorAll(".tasks li").length === 50`)
		b.await(`document.querySelector(".head .state").innerText === "Running"`)
		b.eval(`document.querySelector(".tasks summary").focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelector(".tasks .source")?.innerText.includes("<script>")`)
		b.good("run", p.url)
		b.eval(`document.querySelectorAll(".behind").forEach((d) => { d.open = true })`)
		b.await(`document.querySelector(".plot table").innerText.includes("Time")`)
		b.good("run tables", p.url)
		end()
		b.await(`document.querySelector(".head .state").innerText === "Failed" && document.querySelector(".failed .why").innerText.includes("<script>")`)
		b.await(`document.querySelector(".legend").innerText.includes("aborted")`)
		b.good("run failed", p.url)
		b.harmless()

		b.visit(p.url + "/orgs/lab/workspaces/nothing/watch/4kTcGUm9Zv")
		b.await(`document.querySelector("h1")?.innerText === "There is no such run"`)
		b.visit(p.url + "/user/admin/watch/4kTcGUm9Zv")
		b.await(`document.querySelector(".failed .why")`)
		b.good("no run", p.url)
	})
}

// TestWebPageSignsInAtAProvider signs in at the identity provider. The page then has a token of
// its own, which signing out revokes.
func TestWebPageSignsInAtAProvider(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	issuer := testkit.NewIssuer(t)
	issuer.Email = "ada@example.org"
	address := "127.0.0.1:" + testkit.FreePort(t)
	more := settings{
		"master_key_file": newMasterKey(t), "platform_http_addr": address, "platform_url": "http://" + address,
		"oidc_issuer": issuer.URL, "oidc_name": "University of Example", "oidc_client_id": testkit.IssuerClient, "oidc_client_secret_file": writeFile(t, "oidc-secret", testkit.IssuerSecret+"\n"),
	}
	p := oneProcess(t, common(t, nil, more))
	ada := p.newUser("ada")
	b := openTab(t, browser, p.url+"/view/tokens")
	b.await(`document.querySelector(".elsewhere button")?.innerText === "Sign in with University of Example"`)
	b.good("login with a provider", p.url)
	b.eval(`document.querySelector(".elsewhere button").focus()`)
	b.press(kb.Enter)
	b.await(fmt.Sprintf(`location.href === %q && document.querySelector(".rows .tag")?.innerText === "this page"`, p.url+"/view/tokens"))
	b.await(`document.querySelector(".menu > button").innerText.startsWith("ada")`)
	b.await(`document.querySelectorAll("main h2").length === 1`) // the session of the sign-in was deleted
	mine := func() string {
		return string(p.call(http.MethodGet, "/api/tokens", nil, "Authorization", "Bearer "+ada).body)
	}
	if !strings.Contains(mine(), "Web page 20") {
		t.Errorf("ada's tokens are %s", mine())
	}
	if c := b.cookies(); len(c) != 1 || !c[0].HTTPOnly || !strings.HasPrefix(c[0].Name, "slipway-") {
		t.Errorf("the cookies are %v", c)
	}
	b.eval(`document.querySelector(".menu > button").click()`)
	b.eval(`document.querySelector("#menu button").click()`)
	b.await(`document.querySelector("#account a")?.innerText === "Sign in" && localStorage.length + sessionStorage.length === 0`)
	if strings.Contains(mine(), "Web page 20") {
		t.Errorf("after signing out ada's tokens are %s", mine())
	}

	// A link with another user's code must not sign in.
	b = openTab(t, browser, p.url+"/login?code=abc&state=def")
	b.await(`document.querySelector(".failed .why")?.innerText.includes("not started in this tab")`)
	b.good("login not begun here", p.url)
	if at := b.text("location.href"); at != p.url+"/login" {
		t.Errorf("the address is %s", at)
	}
	issuer.Email = "nobody@example.org"
	b.eval(`document.querySelector(".elsewhere button").click()`)
	b.await(`document.body.innerText.includes("There is no user with your e-mail address")`)
	for _, theme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx(), emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
		b.must(err)
		b.axe("refused by a provider, " + theme)
		b.shoot("refused-by-a-provider-" + theme)
	}
	b.eval(`document.querySelector("a").click()`)
	b.await(fmt.Sprintf(`location.href === %q && document.querySelector("#token")`, p.url+"/login"))
}

// TestWebPageOfBuilds lists the builds of the signed-in user.
func TestWebPageOfBuilds(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachWebProgram(t, func(t *testing.T, p *program, base string) {
		b := openTab(t, browser, p.url+"/view/mine")
		b.signIn(adminToken)
		b.await(`document.querySelector(".empty")`)
		b.good("no builds", p.url)
		for _, name := range []string{"samtools", "sambamba", "broken"} {
			if r := p.call(http.MethodPost, "/v1alpha2/container", environment(base, name), "Authorization", "Bearer "+p.token); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		b.eval("location.reload()")
		b.await(`document.querySelectorAll(".rows .state.good").length === 2 && document.querySelectorAll(".rows .state.bad").length === 1`) // the page refreshes itself
		b.good("builds", p.url)
		b.eval(`document.querySelector(".rows a").focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelector("h1.id")`)
	})
}

// TestWebPageOfContainers lists the containers of the signed-in user on several pages, and
// opens, names and revokes them.
func TestWebPageOfContainers(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	registry := testkit.NewRegistry(t, testkit.Open)
	image := registry.Push(t, "lib/tool:1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{registry.Host}, nil, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/view/containers")
		b.signIn(adminToken)
		b.await(`document.querySelector(".empty")`)
		b.good("no containers", p.url)
		for range 23 {
			if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}, "Authorization", "Bearer "+p.token); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		b.eval("location.reload()")
		b.await(`document.querySelectorAll(".rows .state.good").length === 20`)
		b.good("containers", p.url)
		b.eval(`document.querySelector(".pager button:last-child").click()`)
		b.await(`document.querySelectorAll(".rows > li").length === 3 && document.querySelector(".pager button:last-child").disabled`)
		b.eval(`document.querySelector(".rows .sure button").click()`)
		b.await(`document.querySelector(".rows .sure .bad")`)
		b.eval(`document.querySelector(".rows .sure .bad").click()`)
		b.await(`document.querySelectorAll(".rows .state.bad").length === 1 && document.querySelectorAll(".rows .sure").length === 2`)
		b.eval(`document.querySelector(".rows > li:last-child a").focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelector(".verdict.good")`)
		b.good("container from the list", p.url)
		kept := b.text("location.href")
		b.eval(`[...document.querySelectorAll(".actions button")].find((x) => x.innerText === "Get a fresh name").click()`)
		b.await(fmt.Sprintf(`location.href !== %q && document.querySelector("#page")?.innerText.includes("/wt/")`, kept))
		// The URL gives no access to users who are not signed in.
		b = openTab(t, browser, kept)
		b.await(`document.querySelector("#page")?.innerText.includes("The address of this page gives no access to the image.")`)
		b.await(`document.querySelector(".verdict.good")`)
		if text := b.text(`document.querySelector("#page").innerText`); strings.Contains(text, "/wt/") || strings.Contains(text, "Revoke") || strings.Contains(text, "fresh name") {
			t.Errorf("an anonymous user sees %s", text)
		}
		b.good("container of another user", p.url)
	})
}

// TestWebPageShowsTextOfOthers checks that names in responses are shown as text, even if the
// server would never accept them.
func TestWebPageShowsTextOfOthers(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p := oneProcess(t, common(t, nil, nil))
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	good, text := httputil.NewSingleHostReverseProxy(at), strings.ReplaceAll(probe, `"`, `\"`)
	hostile := map[string]string{
		"/api/user/1/workspaces": `{"orgsAndWorkspaces":[{"orgId":1,"orgName":"%[1]s","workspaceId":null,"roles":["owner"]},
			{"orgId":1,"orgName":"%[1]s","workspaceId":2,"workspaceName":"%[1]s","visibility":"PRIVATE","roles":["%[1]s"]}]}`,
		"/api/orgs/1/workspaces/2/participants": `{"participants":[{"participantId":1,"userName":"%[1]s","email":"%[1]s","wspRole":"view"},
			{"participantId":2,"userName":"%[1]s","email":"%[1]s","wspRole":"view","invitation":{"invitedBy":"%[1]s","expires":"%[1]s"}}],"totalSize":2}`,
		"/api/credentials":         `{"credentials":[{"id":"a","name":"%[1]s","provider":"%[1]s","keys":{"registry":"%[1]s","userName":"%[1]s"}}]}`,
		"/api/webhooks":            `{"webhooks":[{"id":"a","url":"%[1]s","events":["%[1]s"],"createdBy":"%[1]s","disabled":true,"disabledReason":"%[1]s"}]}`,
		"/v1alpha1/builds":         `{"builds":[{"buildId":"%[1]s","status":"%[1]s","targetImage":"%[1]s","platform":"%[1]s"}],"totalSize":100}`,
		"/v1alpha1/containers":     `{"containers":[{"requestId":"%[1]s","containerImage":"%[1]s","containerPlatform":"%[1]s","workflowId":"%[1]s"}],"nextPageToken":"%[1]s"}`,
		"/v1alpha1/abilities":      `{"productVersion":"%[1]s","abilities":[{"name":"%[1]s","problem":"%[1]s"}]}`,
		"/v1alpha1/queue":          `{"backlog":[{"engine":"%[1]s","architecture":"%[1]s"}],"workers":[{"name":"%[1]s","makes":["%[1]s"],"problems":["%[1]s"]}]}`,
		"/v1alpha1/conda/channels": `{"channels":[{"channel":"%[1]s","subdir":"%[1]s","problem":"%[1]s"}],"others":{}}`,
		"/v1alpha2/metrics/pulls":  `{"count":1,"orgs":{"%[1]s":1}}`,
		"/v1alpha2/metrics/health": `{"time":"2026-01-01T00:00:00Z","dependencies":[{"name":"%[1]s","problem":"%[1]s"}],"certificates":[{"setting":"%[1]s","expiryTime":"%[1]s"}]}`,
		"/v1alpha1/scans/sc-0123456789abcdef_1": `{"id":"%[1]s","requestId":"%[1]s","buildId":"%[1]s","containerImage":"%[1]s","platform":"%[1]s","digest":"%[1]s","startTime":"%[1]s","databaseTime":"%[1]s",
			"status":"SUCCEEDED","allowed":false,"reason":"%[1]s","note":"%[1]s","gaps":["%[1]s"],"scanMode":"%[1]s","scanLevels":["%[1]s"],"counts":{"CRITICAL":1},"vulnerabilities":[
			{"id":"%[1]s","severity":"%[1]s","title":"%[1]s","pkgName":"%[1]s","installedVersion":"%[1]s","fixedVersion":"%[1]s","primaryUrl":"javascript:%[1]s","purl":"pkg:conda/%[1]s","platform":"%[1]s"},
			{"id":"%[1]s","severity":"%[1]s","pkgName":"%[1]s","installedVersion":"%[1]s","status":"%[1]s","document":"%[1]s","justification":"%[1]s"}]}`,
		"/v1alpha1/catalog": `{"images":[{"id":"0123456789abcdef","name":"%[1]s","tag":"%[1]s","targetImage":"%[1]s","containerPlatform":"%[1]s","format":"%[1]s","creationTime":"%[1]s",
			"packages":[{"name":"%[1]s","version":"%[1]s","license":"%[1]s","requested":true}]}],"nextPageToken":"%[1]s"}`,
		"/v1alpha1/catalog/0123456789abcdef": `{"id":"%[1]s","name":"%[1]s","tag":"%[1]s","targetImage":"%[1]s","containerPlatform":"%[1]s","creationTime":"%[1]s","buildId":"%[1]s","digest":"%[1]s",
			"earlierDigests":["%[1]s"],"size":1,"pulls":1,"lastPull":"%[1]s","pullHistory":[{"date":"%[1]s","pulls":1},{"date":"0001-01-01","pulls":1},{"date":"9999-01-01","pulls":1}],
			"packages":[{"name":"%[1]s","version":"%[1]s","license":"%[1]s","kind":"%[1]s","requested":true},{"name":"%[1]s","version":"%[1]s","license":"javascript:%[1]s","kind":"%[1]s"}],
			"specs":["%[1]s"],"channels":["javascript:%[1]s"],"baseImage":"%[1]s"}`,
		"/v1alpha1/catalog/0123456789abcdef/citation": "%[1]s",
		"/v1alpha1/catalog/fedcba9876543210":          `{"id":"fedcba9876543210","name":"%[1]s","tag":"%[1]s","targetImage":"%[1]s","deletionTime":"%[1]s","deletionReason":"%[1]s"}`,
		"/v1alpha1/catalog/fedcba9876543210/citation": "%[1]s",
		"/api/admin/usage":                            `{"rows":[{"userName":"%[1]s","orgName":"%[1]s","workspaceName":"%[1]s","builds":1,"buildSeconds":1,"pulls":1}]}`,
	}
	front := httptest.NewServer(http.StripPrefix("/some/where", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := hostile[r.URL.Path]
		if !ok {
			good.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, answer, text)
	})))
	t.Cleanup(front.Close)
	b := openTab(t, browser, front.URL+"/some/where/login")
	b.signIn(adminToken)
	for path, shown := range map[string]string{
		"view/containers": ".rows a", "view/mine": ".rows a", "view/runs": "#space option:last-child", "view/logins": ".rows strong", "view/webhooks": ".rows strong", "view/workspaces": ".rows a", "view/workspaces?org=1&workspace=2": ".rows strong", "view/service": ".rows strong", "view/status": ".rows strong", "view/scans/sc-0123456789abcdef_1": ".vulnerabilities td",
		"c?package=a": ".rows a", "c/0123456789abcdef": ".cite .source", "c/fedcba9876543210": ".failed .why",
	} {
		b.visit(front.URL + "/some/where/" + path)
		b.await(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes("script>")`, shown))
		b.good("hostile "+strings.ReplaceAll(strings.Split(path, "?")[0], "/", " "), front.URL)
		b.harmless()
		if n := b.text(`[...document.querySelectorAll("main a")].filter((a) => a.href.startsWith("javascript:")).length + [...document.querySelectorAll(".copied code")].filter((c) => c.innerText.startsWith("slipway")).length + ""`); n != "0" {
			t.Errorf("the page has %s links or commands of the response", n)
		}
	}
	b = openTab(t, browser, p.url+"/view/scans/sc-0000000000000000_1")
	b.await(`document.querySelector(".lead + p")?.innerText === "This server does not scan images: scan_database is not set."`)
}

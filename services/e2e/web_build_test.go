package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// gated is a channel whose artifacts are blocked until open is called.
func gated(t *testing.T) (channel string, open func()) {
	t.Helper()
	at, err := url.Parse(webChannel(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	good, gate := httputil.NewSingleHostReverseProxy(at), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".conda") && !strings.Contains(r.URL.Path, "procps-ng") {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		}
		good.ServeHTTP(w, r)
	}))
	var opened atomic.Bool
	open = func() {
		if opened.CompareAndSwap(false, true) {
			close(gate)
		}
	}
	t.Cleanup(s.Close)
	t.Cleanup(open)
	return s.URL, open
}

func gatedSettings(channel, base string) settings {
	s := bare(channel)
	s["conda_channels"] = "conda-forge=" + channel + "/lab,bioconda=" + channel + "/lab"
	s["conda_base_image"] = base
	return s
}

func packagesOf(entries ...string) map[string]any {
	return map[string]any{"packages": map[string]any{"type": "CONDA", "entries": entries}}
}

// button returns a JavaScript expression for the button with a text.
func button(says string) string {
	return `[...document.querySelectorAll("button")].find((x) => x.innerText === "` + says + `")`
}

// TestWebPageWaitsAndCancels shows a running build and the queue position of the next one,
// which its user can cancel.
func TestWebPageWaitsAndCancels(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	channel, open := gated(t)
	up := testkit.NewRegistry(t, testkit.Open)
	s := gatedSettings(channel, up.Push(t, "base/index:1", testkit.Index(t, true, "amd64")))
	s["build_concurrency"] = "1"
	p := oneProcess(t, common(t, []string{up.Host}, s))
	mine := p.order(packagesOf("samtools=1.20"), "Authorization", "Bearer "+p.token)
	b := openTab(t, browser, p.url+"/view/builds/"+text(mine, "buildId"))
	b.await(`document.querySelector(".log")?.innerText.includes("fetching the other")`)
	b.await(`document.querySelector("h1.id + .verdict").innerText === "Being built." && document.querySelector(".facts").innerText.includes("so far")`)
	if b.text(button("Cancel this build")) != "undefined" {
		t.Error("the page offers to cancel to a user who is not signed in")
	}
	b.eval(button("Follow") + ".click()")
	b.await(button("Follow") + `.getAttribute("aria-pressed") === "false"`)
	b.good("running", p.url)

	b = openTab(t, browser, p.url+"/?p=tables")
	b.await(webVerdict + ` === "This can be made."`)
	b.put("#get", kb.Enter)
	b.await(`document.querySelector(".steps .now")?.innerText.startsWith("In the queue, place 1")`)
	b.good("queued", p.url)
	b.eval(`document.querySelector(".result [role=status] a").click()`)
	b.await(`document.querySelector("h1.id + .verdict")?.innerText === "In the queue, at place 1."`)
	b.good("queued-build", p.url)

	b.visit(p.url + "/login")
	b.signIn(p.token)
	b.visit(p.url + "/view/builds/" + text(mine, "buildId"))
	b.await(button("Cancel this build"))
	b.eval(button("Cancel this build") + ".focus()")
	b.press(kb.Enter)
	b.await(`document.querySelector("h1.id + .verdict").innerText === "Cancelled."`)
	b.good("cancelled", p.url)
	b.await(`document.querySelectorAll(".log time").length > 0`)
	b.eval(button("Times") + ".click()")
	b.await(`document.querySelector(".log time").getClientRects().length > 0 && Math.abs(new Date(document.querySelector(".log time").dateTime) - Date.now()) < 600000`)
	b.good("log with times", p.url)
	open()
}

// TestWebPageShowsEndOfBuild shows an estimate based on the previous build, whose recorded
// duration is set to an hour.
func TestWebPageShowsEndOfBuild(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	channel, _ := gated(t)
	up := testkit.NewRegistry(t, testkit.Open)
	s := gatedSettings(channel, up.Push(t, "base/index:1", testkit.Index(t, true, "amd64")))
	s["build_concurrency"], s["database_url"] = "1", "sqlite:"+filepath.Join(t.TempDir(), "slipway.db")
	p := oneProcess(t, common(t, []string{up.Host}, s))
	if end := p.finished(t, p.order(packagesOf("procps-ng"))); end["succeeded"] != true {
		t.Fatalf("the previous build ended as %v", end)
	}
	db, err := sqldb.Open(t.Context(), s["database_url"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `UPDATE build_builds SET started_at = completed_at - 3600000000`); err != nil {
		t.Fatal(err)
	}
	running, waiting := text(p.order(packagesOf("samtools=1.20")), "buildId"), text(p.order(packagesOf("tables")), "buildId")
	b := openTab(t, browser, p.url+"/view/builds/"+running)
	b.await(`document.querySelector(".expected")?.innerText === "Expected to finish in about 1 h, based on recent builds of this kind."`)
	b.good("expected", p.url)
	b = openTab(t, browser, p.url+"/view/builds/"+waiting)
	b.await(`document.querySelector(".expected")?.innerText === "Expected to start in about 1 h and to finish in about 2 h, based on recent builds of this kind."`)
	b.good("expected-queued", p.url)
}

// TestWebPageBuildsAgain opens the first view, filled in with the request of an earlier build.
// Submitting it unchanged must return that build. The page must list the parts of a request that
// are not stored.
func TestWebPageBuildsAgain(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, base := webProgram(t)
	order := func(options map[string]any, more map[string]any) map[string]any {
		body := packagesOf("tables")
		body["packages"].(map[string]any)["condaOpts"] = options
		maps.Copy(body, more)
		made := p.order(body)
		if end := p.finished(t, made); end["succeeded"] != true {
			t.Fatalf("the build is %v", end)
		}
		return made
	}
	first := text(order(map[string]any{"baseImage": base}, nil), "buildId")
	b := openTab(t, browser, p.url+"/view/builds/"+first)
	b.await(button("Build again"))
	b.eval(button("Build again") + ".click()")
	b.await(`document.querySelector("#image")?.value === "` + base + `" && document.querySelector(".chip .name")?.innerText === "tables"`)
	b.await(webVerdict)
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".result [role=status] a")?.href.endsWith("/view/builds/` + first + `")`)
	if b.text(`document.querySelector(".lost")`) != "null" {
		t.Error("the page lists missing parts")
	}

	request := order(map[string]any{"baseImage": base, "basePackages": ""}, map[string]any{
		"containerConfig": map[string]any{"cmd": []string{"a b", "c"}, "env": []string{"SECRET=x"}},
	})
	b = openTab(t, browser, p.url+"/view/containers/"+text(request, "containerToken"))
	b.await(button("Build again"))
	b.eval(button("Build again") + ".click()")
	b.await(`document.querySelector("#cmd")?.value === '"a b" c'`)
	b.await(`[...document.querySelectorAll(".lost li")].map((l) => l.innerText).join("|") ===
		"The packages that every environment gets: none.|The variables SECRET: their values are never shown."`)
	b.good("again", p.url)
}

// TestWebPageKeepsTheLogWithoutItsGateway kills the gateway that streams a log. The page must
// continue with another gateway and show each line once.
func TestWebPageKeepsTheLogWithoutItsGateway(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	channel, open := gated(t)
	up := testkit.NewRegistry(t, testkit.Open)
	s := gatedSettings(channel, up.Push(t, "base/index:1", testkit.Index(t, true, "amd64")))
	p, _ := buildersPerRole(t, common(t, []string{up.Host}, s))
	made := p.order(packagesOf("samtools=1.20"))
	var now atomic.Pointer[httputil.ReverseProxy]
	use := func(address string) {
		to, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		now.Store(httputil.NewSingleHostReverseProxy(to))
	}
	use(p.url)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	b := openTab(t, browser, front.URL+"/view/builds/"+text(made, "buildId"))
	b.await(`document.querySelector(".log")?.innerText.includes("1 of 3")`)

	p.process("gateway").kill()
	b.await(`document.querySelector(".log + .problem")?.innerText.includes("reconnects")`)
	b.good("lost", front.URL)
	other := p.another()
	use(other)
	open()
	b.await(`document.querySelector("h1.id + .verdict").innerText === "Built." && !document.querySelector(".log + .problem")`)
	want := strings.TrimRight(string(request(t, http.MethodGet, other+"/v1alpha1/builds/"+text(made, "buildId")+"/logs", nil).body), "\n")
	if got := b.text(`[...document.querySelectorAll(".log div")].map((l) => l.textContent).join("\n")`); got != want {
		t.Errorf("the log is shown as\n%s\nwant\n%s", got, want)
	}
}

// TestWebPageBuildsAFolder builds a Dockerfile with its folder.
func TestWebPageBuildsAFolder(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	browser := newChromium(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	b := openTab(t, browser, p.url+"/?from=dockerfile")
	b.await(`document.querySelector("#dockerfile")`)
	b.eval(`{ const d = new DataTransfer(); d.items.add(new File(["FROM ` + base + `\nCOPY notes.txt /\nRUN busybox printf '\\033[32mgreen\\033[0m\\n'\n"], "Dockerfile")); d.items.add(new File(["kept"], "notes.txt"));
		const input = document.querySelector(".drop input"); input.files = d.files; input.dispatchEvent(new Event("change", {bubbles: true})); }`)
	b.await(`document.querySelector("#dockerfile").value.startsWith("FROM ") && document.querySelector(".drop").innerText.startsWith("2 files")`)
	b.good("folder", p.url)
	b.put("#get", kb.Enter)
	b.await(webReady)
	if content := files(t, pull(t, b.text(webName), "amd64")); content["notes.txt"] != "kept" {
		t.Errorf("the image has %v", content)
	}
	b.eval(`document.querySelector(".result [role=status] a").click()`)
	b.await(`document.querySelector(".log .ansi-green")?.innerText === "green"`)
	b.good("recipe-build", p.url)
	b.eval(button("Build again") + ".click()")
	b.await(`document.querySelector("#dockerfile")?.value.startsWith("FROM ") && /^The folder that its Dockerfile copied from .\d+ B, compressed.: add it again.$/.test(document.querySelector(".lost li").innerText)`)
	b.good("again-folder", p.url)
}

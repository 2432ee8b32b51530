package e2e

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"slipway.dev/services/internal/testkit"
)

// webChannel is a channel of small packages: samtools in two versions, the newer of which
// conflicts with the older htslib; broken, whose artifact is missing; and tables, which exists
// for two platforms.
func webChannel(t *testing.T) *httptest.Server {
	t.Helper()
	small := func(name, version string, depends ...string) madePackage {
		return madePackage{name: name, version: version, subdir: "linux-64", depends: depends, license: "MIT", files: []packedFile{{path: "share/" + name, content: version, mode: 0o644}}}
	}
	elsewhere := func(subdir string, p madePackage) madePackage {
		p.subdir = subdir
		return p
	}
	lab := madeChannel(t, small("samtools", "1.19", "htslib >=1.17"), small("samtools", "1.20", "htslib >=1.20"), small("htslib", "1.17"), small("htslib", "1.20"),
		small("sambamba", "1.0"), small("procps-ng", "4.0.4"), small("broken", "0.1"),
		elsewhere("linux-aarch64", small("procps-ng", "4.0.4")), small("tables", "3.9"), elsewhere("linux-aarch64", small("tables", "3.9")))
	at, err := url.Parse(lab.URL)
	if err != nil {
		t.Fatal(err)
	}
	good := httputil.NewSingleHostReverseProxy(at)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "broken-") {
			http.NotFound(w, r)
			return
		}
		good.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// webProgram returns a program with the channel, and the base image of its packages.
func webProgram(t *testing.T) (p *program, base string) {
	t.Helper()
	plain, s, base := webSettings(t)
	return oneProcess(t, common(t, plain, s)), base
}

// eachWebProgram runs a scenario with webProgram in every shape.
func eachWebProgram(t *testing.T, scenario func(t *testing.T, p *program, base string)) {
	t.Helper()
	plain, s, base := webSettings(t)
	eachCopyShape(t, plain, s, func(t *testing.T, p *program) { scenario(t, p, base) })
}

// webSettings returns the settings of a program with its own channel, and the base image of its
// packages.
func webSettings(t *testing.T) (plain []string, s settings, base string) {
	t.Helper()
	up, lab := testkit.NewRegistry(t, testkit.Open), webChannel(t)
	s = bare(lab.URL)
	s["conda_channels"] = "conda-forge=" + lab.URL + "/lab,bioconda=" + lab.URL + "/lab"
	index := testkit.Index(t, true, "amd64", "arm64")
	base = up.Push(t, "base/index:1", index)
	up.Push(t, "base/index:signature", referring(t, "signature", index))
	s["conda_base_image"] = base
	return []string{up.Host}, s, base
}

const (
	webField   = `document.querySelector("#search")`
	webSubmit  = `document.querySelector("#get")`
	webBelow   = `document.querySelector(".machine").getBoundingClientRect().top`
	webVerdict = `document.querySelector(".preflight .verdict")?.innerText`
)

// TestWebPage types a package name and pulls the resulting image, using the keyboard only
// except for a clicked suggestion.
func TestWebPage(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachWebProgram(t, func(t *testing.T, p *program, _ string) {
		b := openTab(t, browser, p.url+"/")
		b.await(webField)
		b.good("empty", p.url)

		b.eval(webField + ".focus(); window.below = " + webBelow)
		b.press("sam")
		b.await(`document.querySelectorAll("#found li").length === 2`)
		if got := b.text(webBelow + " === window.below"); got != "true" {
			t.Error("the search moves the rest of the form")
		}
		b.good("search", p.url)
		b.await(webField + `.getAttribute("aria-activedescendant") === "found-0"`)
		b.press(kb.ArrowDown)
		b.await(webField + `.getAttribute("aria-activedescendant") === "found-1"`)
		b.press(kb.Enter)
		b.await(`document.querySelector(".chip .name")?.innerText === "samtools"`)
		b.await(`document.querySelectorAll(".chip select option").length === 3`)
		b.await(webVerdict + ` === "This can be made."`)
		b.press(kb.Tab + "1.20")
		b.await(`location.search === "?p=samtools%3D1.20"`)

		b.eval(webField + ".focus()")
		b.press("htslib=1.17" + kb.Enter)
		b.await(webVerdict + ` === "These do not fit together."`)
		b.await(webSubmit + ".disabled")
		b.good("impossible", p.url)
		b.eval(`document.querySelector(".suggestions button").click()`)
		b.await(webVerdict + ` === "These fit together."`)
		b.good("possible", p.url)

		b.eval(webSubmit + ".focus()")
		b.press(kb.Enter)
		b.await(`document.querySelector(".copied.large code")`)
		name := b.text(`document.querySelector(".copied.large code").innerText`)
		b.await(`document.querySelector(".result [role=status]")?.innerText.startsWith("Ready to pull.")`)
		b.eval(`document.querySelector(".copied.large .copy").focus()`)
		b.press(kb.Enter)
		b.await(`document.querySelector(".copied.large .copy").innerText.startsWith("Copied")`)
		b.good("ready", p.url)
		shared := b.text("location.href")
		if strings.Contains(shared, tokenOf(name)) {
			t.Errorf("the address has the token: %s", shared)
		}
		if content := files(t, pull(t, name, "amd64")); content["opt/conda/share/samtools"] == "" {
			t.Error("samtools is not in the image")
		}
		other := openTab(t, browser, p.url+"/")
		other.await(webField)
		other.put("#search", "command:nothing")
		other.await(`document.querySelector("#search-told").innerText === "No package that was used on this server has the command nothing."`)
		other.eval(webField + `.select()`)
		other.press("file: samtools")
		other.await(`document.querySelector("#found .name")?.innerText === "samtools"`)
		other.good("search by file", p.url)
		other.press(kb.Enter)
		other.await(`document.querySelector(".chip .name")?.innerText === "samtools" && document.querySelectorAll(".chip").length === 1`)
		other.put("#search", "samtools license:Nothing-1.0")
		other.await(`document.querySelector("#search-told").innerText === "No package that matches samtools has the licence Nothing-1.0."`)
		other.press(kb.Enter) // it is no specification, which is checked when the next search has ended
		other.eval(webField + `.select()`)
		other.press("samtools license:mit")
		other.await(`document.querySelector("#found .license")?.innerText === "MIT"`)
		if got := other.text(chosen + " + location.search"); got != "samtools=?p=samtools" { // neither Enter has added the typed text
			t.Errorf("the chosen packages and the address are %s", got)
		}
		other.good("search by licence", p.url)

		b.eval(`document.querySelector(".result [role=status] a").click()`)
		b.await(`document.querySelector(".log")?.innerText.includes("sent")`)
		b.await(`document.querySelector("h1.id + .verdict").innerText === "Built."`)
		b.await(`document.querySelector("table")?.innerText.includes("procps-ng")`)
		b.good("build", p.url)
		b.eval(`document.querySelector("main .button").click()`)
		b.await(`document.querySelector(".copied.large code")?.innerText.includes("/wt/")`)
		if content := files(t, pull(t, b.text(`document.querySelector(".copied.large code").innerText`), "amd64")); content["opt/conda/share/samtools"] == "" {
			t.Error("samtools is not in the image of the second name")
		}
		b.eval(button("Show its layers") + ".click()")
		b.await(`document.querySelector(".layers .link")`)
		b.eval(`document.querySelectorAll(".layers .link").forEach((l) => l.click())`)
		b.await(`document.querySelector(".layers").innerText.includes("opt/conda/share/samtools")`)
		b.good("build's files", p.url)

		for order, says := range map[string]string{
			shared: `/, [0-9.]+ k?B: all there already$/`, p.url + "/?p=samtools%3D1.20": `/, [0-9.]+ k?B, of which [0-9.]+ k?B are there already$/`,
		} {
			again := openTab(t, browser, order)
			again.await(says + `.test(document.querySelector(".contents summary")?.innerText)`)
			again.good("layers there", p.url)
		}
	})
}

// TestWebPageFromFiles builds an image from an environment file, and requests one for a
// Dockerfile without BuildKit, switching tabs with the keyboard.
func TestWebPageFromFiles(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	b := openTab(t, browser, p.url+"/")
	b.await(`document.querySelector("[role=tab]")`)
	b.eval(`document.querySelector("#tab-packages").focus()`)
	b.press(kb.ArrowRight)
	b.await(`document.querySelector("#environment")`)
	b.eval(`document.querySelector("#environment").focus()`)
	b.press("name: tools\rdependencies:\r  - samtools=1.20\r  - htslib=1.17")
	b.await(webVerdict + ` === "These do not fit together."`)
	b.good("impossible environment", p.url)
	b.press(kb.Backspace + kb.Backspace + "20")
	b.await(webVerdict + ` === "These fit together."`)
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".result [role=status]")?.innerText.startsWith("Ready to pull.")`)
	b.await(`document.activeElement.id === "result-title"`)
	b.good("environment", p.url)
	if content := files(t, pull(t, b.text(`document.querySelector(".copied.large code").innerText`), "amd64")); content["opt/conda/share/samtools"] == "" {
		t.Error("samtools is not in the image")
	}

	// A lock is sent unchanged, so that the command line gets the same image.
	lock := p.call(http.MethodPost, "/v1alpha1/conda/lock", map[string]any{"format": "explicit-sha256", "packages": map[string]any{"type": "CONDA", "entries": []string{"htslib=1.20"}}})
	if lock.status != http.StatusOK {
		t.Fatalf("the lock is %d %s", lock.status, lock.body)
	}
	made := p.order(map[string]any{"packages": map[string]any{"type": "CONDA", "environment": base64.StdEncoding.EncodeToString(lock.body)}})
	if s := p.finished(t, made); s["succeeded"] != true {
		t.Fatalf("the image of the lock ended as %v", s)
	}
	b = openTab(t, browser, p.url+"/?from=environment")
	b.await(`document.querySelector("#environment")`)
	write := func(text string) {
		b.eval(fmt.Sprintf(`(() => { const e = document.querySelector("#environment"); e.value = %q; e.dispatchEvent(new Event("input", { bubbles: true })); })()`, text))
	}
	write("dependencies:\n  - samtols=1.20\n")
	b.await(`document.querySelector(".suggestions button")?.textContent === "use samtools instead of samtols"`)
	b.good("unknown name in an environment", p.url)
	b.eval(`document.querySelector(".suggestions button").click()`)
	b.await(`document.querySelector("#environment").value.includes("  - samtools=1.20\n") && ` + webVerdict + ` === "These fit together."`)
	write(string(lock.body))
	b.await("!" + webSubmit + ".disabled")
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".result [role=status]")?.innerText.startsWith("Ready to pull.")`)
	want, err1 := pull(t, text(made, "targetImage"), "amd64").Digest()
	got, err2 := pull(t, b.text(`document.querySelector(".copied.large code").innerText`), "amd64").Digest()
	if err := errors.Join(err1, err2); err != nil || got != want {
		t.Errorf("the page's image of the lock is %s, want %s: %v", got, want, err)
	}

	b.unfold()
	b.eval(`document.querySelector("#tab-environment").focus()`)
	b.press(kb.ArrowRight)
	b.await(`document.querySelector("#dockerfile")`)
	b.eval(`document.querySelector("#dockerfile").focus()`)
	b.press("FROM scratch")
	b.await("!" + webSubmit + ".disabled")
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".result .why")?.innerText.includes("cannot build")`)
	b.good("refused", p.url)
}

// TestWebPageInspectsImage inspects an image for a selected platform. An issued name must not
// appear in the page's URL.
func TestWebPageInspectsImage(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, base := webProgram(t)
	b := openTab(t, browser, p.url+"/")
	b.await(`document.querySelector("nav a[href$='view/inspect']")`)
	b.eval(`document.querySelector("nav a[href$='view/inspect']").click()`)
	b.await(`document.querySelector("#image")`)
	b.good("inspect", p.url)
	b.eval(`document.querySelector("#image").focus()`)
	b.press(base + kb.Enter)
	b.await(`document.querySelector("[aria-pressed=true]")?.innerText === "linux/amd64"`)
	b.eval(`document.querySelector("[aria-pressed=false]").click()`)
	b.await(`document.querySelector("[aria-pressed=true]")?.innerText === "linux/arm64" && document.querySelector(".facts dd").innerText === "arm64"`)
	b.await(`new URLSearchParams(location.search).get("image") && location.search.includes("arm64")`)
	b.eval(button("Find referrers") + ".click()")
	b.await(`document.querySelector("table")?.innerText.includes("application/vnd.signature")`)
	b.good("inspected", p.url)

	name := p.submit(map[string]any{"containerImage": base, "containerConfig": map[string]any{"env": []string{"GREETING=hello"}}})
	b.eval(`document.querySelector("#image").select()`)
	b.press(name + kb.Enter)
	b.await(`document.querySelector(".source")?.innerText.includes("GREETING=hello")`)
	if at := b.text("location.href"); at != p.url+"/view/inspect" {
		t.Errorf("the address is %s", at)
	}
	b.eval(`document.querySelector("#image").select()`)
	b.press(base + "-of-nobody" + kb.Enter)
	b.await(`document.querySelector(".failed .why")?.innerText`)
	b.good("inspected nothing", p.url)
}

// TestWebPageShowsReason checks that a failed build is explained where a user waits for it and at
// the top of its own page, and that missing builds and pages are reported.
func TestWebPageShowsReason(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	b := openTab(t, browser, p.url+"/?p=broken")
	b.await(webVerdict + ` === "This can be made."`)
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".failed .why")?.innerText.includes("broken")`)
	b.await(`!document.querySelector(".uses, .copied")`) // nothing that could be pulled
	b.good("failed", p.url)
	b.eval(button("Change and try again") + ".click()")
	b.await(`document.activeElement.id === "search"`)
	b.eval(`document.querySelector(".result .actions a").click()`)
	b.await(`document.querySelector("h1.id + .verdict + .failed .why")?.innerText.includes("broken")`)
	b.good("failed-build", p.url)

	b = openTab(t, browser, p.url+"/?p=samtoools")
	b.await(webVerdict + ` === "This cannot be made."`)
	b = openTab(t, browser, p.url+"/view/builds/0000000000000000_1")
	b.await(`document.querySelector("h1").innerText === "There is no such build"`)
	if r := request(t, http.MethodGet, p.url+"/view/nothing/at/all", nil); r.status != http.StatusNotFound {
		t.Errorf("a missing page got %d", r.status)
	}
	b = openTab(t, browser, p.url+"/view/nothing/at/all")
	b.await(`document.querySelector("h1").innerText === "There is no such page"`)
	b.axe("missing")
}

// probe runs a script and fetches an image if a page interprets it as HTML.
const probe = `<img src=/probe onerror="document.title='run'"><script>document.title='run'</script>`

// TestWebPageShowsText checks that texts of channels and builds are shown unchanged. The page
// is served below a path prefix that only a proxy knows.
func TestWebPageShowsText(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	good := httputil.NewSingleHostReverseProxy(at)
	text := strings.ReplaceAll(strings.ReplaceAll(probe, `"`, `\"`), "/", `\/`)
	hostile := map[string]string{
		"/v1alpha1/conda/packages": fmt.Sprintf(`{"packages":[{"name":"%[1]s","version":"%[1]s","channel":"%[1]s","summary":"%[1]s"}],"total":1}`, text),
		"/v1alpha1/conda/lock":     fmt.Sprintf(`{"locks":[{"platform":"%[1]s","packages":[{"name":"%[1]s","version":"%[1]s","channel":"%[1]s","license":"%[1]s"}]}]}`, text),
		"/v1alpha2/container":      fmt.Sprintf(`{"requestId":"x","targetImage":"%[1]s","buildId":"0123456789abcdef_1"}`, text),
		"/v1alpha1/builds/0123456789abcdef_1": fmt.Sprintf(`{"buildId":"%[1]s","status":"COMPLETED","succeeded":false,"reason":"%[1]s","reasonCode":"%[1]s","message":"%[1]s","platform":"%[1]s",`+
			`"containerFile":"%[1]s","condaFile":"%[1]s","digest":"%[1]s"}`, text),
		"/v1alpha2/container/" + strings.Repeat("a", 26): fmt.Sprintf(`{"requestId":"%[1]s","targetImage":"%[1]s","containerImage":"%[1]s","containerPlatform":"%[1]s","workflowId":"%[1]s",`+
			`"containerConfig":{"env":["%[1]s"],"cmd":["%[1]s"],"layers":[{"location":"%[1]s"}]},"containerIncludes":["%[1]s"],"creationTime":"%[1]s","containerFile":"%[1]s","buildId":"%[1]s"}`, text),
		"/v1alpha2/container/" + strings.Repeat("a", 26) + "/status": fmt.Sprintf(`{"status":"DONE","succeeded":false,"reason":"%[1]s","reasonCode":"%[1]s","message":"%[1]s"}`, text),
		"/v1alpha1/inspect": fmt.Sprintf(`{"container":{"registry":"%[1]s","imageName":"%[1]s","reference":"%[1]s","digest":"%[1]s","config":{"created":"%[1]s",`+
			`"config":{"env":["%[1]s"],"labels":{"%[1]s":"%[1]s"}},"history":[{"created_by":"%[1]s"},{"created_by":"%[1]s","empty_layer":true}]},"manifest":{"layers":[{"digest":"%[1]s","size":1}]}}}`, text),
		"/v1alpha1/builds/0123456789abcdef_1/lock":   fmt.Sprintf(`{"locks":[{"platform":"x","packages":[{"name":"%[1]s","license":"%[1]s"}]}]}`, text),
		"/v1alpha1/builds/0123456789abcdef_1/events": "event: phase\nid: 0\ndata: " + probe + "\n\nevent: log\nid: 1\ndata: " + probe + "\n\nevent: log\nid: 2\ndata:  50%\ndata: \x1b[1;31mred \x1b[2K" + probe + "\x1b[0m plain\n\nevent: done\nid: 1\ndata: {\"succeeded\":false,\"message\":\"" + text + "\"}\n\n",
	}
	front := httptest.NewServer(http.StripPrefix("/some/where", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := hostile[r.URL.Path]
		if !ok {
			good.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[strings.HasPrefix(answer, "event:")])
		_, _ = io.WriteString(w, answer)
	})))
	t.Cleanup(front.Close)

	b := openTab(t, browser, front.URL+"/some/where/?p="+url.QueryEscape(probe)+"&channel="+url.QueryEscape(probe))
	b.await(`document.querySelector(".preflight .verdict")`)
	b.eval(webField + ".focus()")
	b.press("x")
	b.await(`document.querySelector("#found li")?.innerText.includes("<img")`)
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".failed .why")?.innerText.includes("<script>")`)
	b.good("hostile", front.URL)
	b.eval(`document.querySelector(".result .actions a").click()`)
	b.await(`document.querySelector(".log")?.innerText.includes("<script>")`)
	b.await(`document.querySelector("table")?.innerText.includes("<img")`)
	b.await(`[...document.querySelectorAll(".log .ansi-red.strong")].map((s) => s.textContent).join("").startsWith("red <img") && !document.querySelector(".log").innerText.includes("50%")`)
	b.good("hostile-build", front.URL)
	b.put(".find", "<script>")
	b.await(`document.querySelectorAll(".log mark").length === 2`)
	b.eval(`location.assign("../containers/" + "a".repeat(26))`)
	b.await(`document.querySelector(".facts")?.innerText.includes("<img")`)
	b.good("hostile-container", front.URL)
	b.eval(`location.assign("../inspect?image=x")`)
	b.await(`document.querySelector(".layers")?.innerText.includes("<img") && document.querySelector(".history")?.innerText.includes("<script>")`)
	b.good("hostile-image", front.URL)
	if b.text(`document.querySelectorAll("img[src*=probe], main script").length`) != "0" || b.text("document.title") == "run" {
		t.Error("shown text was executed")
	}
}

// TestWebPageReturnsToLog checks that each line of a log is shown once, although the
// connection is lost, and the first attempt to reconnect fails.
func TestWebPageReturnsToLog(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, base := webProgram(t)
	made := p.order(environment(base, "samtools"))
	if s := p.finished(t, made); s["succeeded"] != true {
		t.Fatalf("the build ended as %v", s)
	}
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	good, after := httputil.NewSingleHostReverseProxy(at), make(chan string, 10)
	var connections atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			good.ServeHTTP(w, r)
			return
		}
		after <- r.Header.Get("Last-Event-ID") + r.URL.Query().Get("lastEventId")
		switch connections.Add(1) {
		case 1:
			cutOff(t, w, p.url+r.URL.Path)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			good.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	b := openTab(t, browser, front.URL+"/view/builds/"+text(made, "buildId"))
	b.await(`document.querySelector(".log + .problem")?.innerText.includes("reconnects")`)
	b.await(`document.querySelector(".log")?.innerText.includes("were sent") && !document.querySelector(".log + .problem")`)
	want := strings.TrimRight(p.logOf(made), "\n")
	if got := b.text(`[...document.querySelectorAll(".log div")].map((l) => l.textContent).join("\n")`); got != want {
		t.Errorf("the log is shown as\n%s\nwant\n%s", got, want)
	}
	if one, two, three := <-after, <-after, <-after; one != "" || two != "1" || three != "1" {
		t.Errorf("the log was requested after lines %q, %q and %q", one, two, three)
	}
}

// cutOff forwards events up to the first line of a log.
func cutOff(t *testing.T, w http.ResponseWriter, url string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	for line := false; lines.Scan(); {
		_, _ = fmt.Fprintln(w, lines.Text())
		if line = line || lines.Text() == "event: log"; line && lines.Text() == "" {
			break
		}
	}
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

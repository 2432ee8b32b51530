package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"slipway.dev/services/internal/testkit"
)

// keepIt is the button that keeps an image.
var keepIt = button("Keep it")

// webNamed is a JavaScript expression that reports whether the page shows an image name.
func webNamed(name string) string {
	return fmt.Sprintf(`document.querySelector(".copied.large code")?.innerText === %q`, name)
}

// TestWebPageKeepsAnImage keeps an image that a search found, and opens its page, copies its citation, and finds it in
// the catalogue, which remembers the search in its address.
func TestWebPageKeepsAnImage(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	plain, more, _ := webSettings(t)
	more["limit_searches_anonymous"] = "0" // it waits for pulls to be counted
	eachCopyShape(t, plain, more, func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/c")
		b.await(`document.querySelector(".result h2")?.innerText === "Nothing is kept here yet"`)
		b.good("empty catalogue", p.url)
		b.eval(`document.querySelector(".result a").click()`)
		b.await(webField)
		b.put("#search", "samtools 1.20"+kb.Enter)
		b.await(webVerdict + ` === "This can be made."`)
		b.eval(webSubmit + ".click()")
		b.await(webReady)
		earlier := b.text(webName)
		b.await(keepIt)
		b.good("result that can be kept", p.url)

		b.eval(keepIt + ".click()") // users only, unless the setting keep is all
		b.await(`document.querySelector(".keep .problem")?.innerText.includes("keeps images of its users only")`)
		b.good("refused to keep", p.url)
		b.eval(`document.querySelector(".keep a").click()`)
		b.signIn(adminToken)
		b.eval("history.back()") // to the result
		b.await(webNamed(earlier) + ` && document.querySelector(".menu")`)
		b.await(keepIt)
		b.eval(keepIt + ".click()")
		b.await(`document.querySelector(".result h2")?.innerText === "Your image is kept"`)
		b.await(webReady)
		b.good("kept", p.url)
		name := b.text(webName)
		rest, isKept := strings.CutPrefix(name, p.host+"/c/")
		id, tagged, _ := strings.Cut(rest, "/")
		if !isKept || len(id) != 16 || tagged != "samtools:1.20" {
			t.Fatalf("the name is %s", name)
		}
		said := b.text(`document.querySelector(".result").innerText`)
		for _, wrong := range []string{"works until", "revoke", "secret", "have changed", "Keep it"} {
			if strings.Contains(said, wrong) {
				t.Errorf("the result says %q: %s", wrong, said)
			}
		}
		b.reload()
		b.await(webNamed(name))
		image := pull(t, name, "amd64")
		one, err := image.Digest()
		two, err2 := pull(t, earlier, "amd64").Digest()
		if err != nil || err2 != nil || one != two || files(t, image)["opt/conda/share/samtools"] != "1.20" {
			t.Errorf("the kept image is %s %v, and the image of the result %s %v", one, err, two, err2)
		}

		b.eval(`document.querySelector(".result .note a").click()`)
		b.await(fmt.Sprintf(`location.href === %q && document.title === "samtools 1.20 · Slipway" && document.querySelector(".facts")`, p.url+"/c/"+id))
		b.checkKept(p, name)
		b.eval("history.back()")
		b.await(webNamed(name))

		// Any client can open the address that is the name of the image.
		other := openTab(t, browser, "http://"+name)
		other.await(fmt.Sprintf(`location.href === %q && document.title === "samtools 1.20 · Slipway"`, p.url+"/c/"+id))
		other.eval(button("Make a variant") + ".click()")
		other.await(`location.search.startsWith("?p=samtools%3D1.20")`)
		other.await(chosen + ` === "samtools=1.20"`)
		other.searchCatalogue(p, id)

		other.visit(p.url + "/c/0123456789abcdef")
		other.await(`document.querySelector("h1")?.innerText === "There is no such image in the catalogue"`)
		other.good("unknown kept image", p.url)
		other.eval(`document.querySelector("main .button").click()`)
		other.await(`document.querySelectorAll(".rows > li").length > 0`)
	})
}

// checkKept checks the page of the kept image of samtools 1.20, on screen and on paper.
func (b *tab) checkKept(p *program, name string) {
	b.t.Helper()
	b.await(webNamed(name))
	b.await(`document.querySelector(".cite .source")?.innerText.startsWith("@")`)
	b.good("page of a kept image", p.url)
	const rows = `[...document.querySelectorAll("[aria-label=Packages] tbody tr")].filter((r) => r.offsetHeight).map((r) => [...r.cells].slice(0, 4).map((c) => c.innerText).join(" ")).join()`
	b.await(rows + ` === "samtools 1.20 conda MIT"`)
	shown := func(media string) string {
		_, err := chromedp.Call(b.ctx(), emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media})
		b.must(err)
		b.shoot("page-of-a-kept-image-" + media)
		return b.text(`[document.querySelector("nav"), document.querySelector(".uses"), document.querySelector(".paper")].map((e) => e.offsetHeight > 0).join() + " " + ` + rows)
	}
	if got := shown("print"); !strings.HasPrefix(got, "false,false,true samtools") || !strings.Contains(got, "htslib 1.20 conda MIT") {
		b.t.Errorf("on paper the page shows %s", got)
	}
	if got := shown(""); got != "true,true,false samtools 1.20 conda MIT" {
		b.t.Errorf("after printing the page shows %s", got)
	}
	b.eval(button("Show all 3 packages") + ".click()")
	b.await(rows + `.includes("htslib 1.20 conda MIT")`)
	b.good("all packages of a kept image", p.url)
	for _, c := range []struct{ title, begins string }{{"CITATION.cff", "cff-version:"}, {"RO-Crate", "{"}, {"BibTeX", "@"}} {
		b.eval(button(c.title) + ".click()")
		b.await(fmt.Sprintf(`document.querySelector(".cite .source")?.innerText.startsWith(%q) && document.querySelector(".cite .source").ariaLabel === %q`, c.begins, c.title))
		b.good("citation as "+c.title, p.url)
	}
	b.eval(`document.querySelector(".cite .copy").focus()`)
	b.press(kb.Enter)
	b.await(`document.querySelector(".cite .copy").innerText.startsWith("Copied")`)
	for _, link := range []string{"conda", "conda-lock", "pixi", "Download citation.bib"} { // without a login, as all of the catalogue
		at := b.text(fmt.Sprintf(`[...document.querySelectorAll("main a[download]")].find((a) => a.innerText === %q)?.href`, link))
		r := p.call(http.MethodGet, strings.TrimPrefix(at, p.url), nil)
		if r.status != http.StatusOK || !strings.Contains(string(r.body), "samtools") {
			b.t.Errorf("%s at %s: %d %s", link, at, r.status, r.body)
		}
	}
	testkit.Until(b.t, "the pulls", func() error {
		if r := p.call(http.MethodGet, strings.Replace(b.text("location.pathname"), "/c/", "/v1alpha1/catalog/", 1), nil); r.json(b.t)["lastPull"] == nil {
			return fmt.Errorf("the image is %s", r.body)
		}
		return nil
	})
	b.reload()
	b.await(`document.querySelectorAll("rect.column").length === 14 && /^[1-9] pulls?, the last on /m.test(document.body.innerText)`)
	b.eval(`[...document.querySelectorAll("main a")].find((a) => a.innerText === "The build and its log").click()`)
	b.await(`document.querySelector("h1.id + .verdict")?.innerText === "Built."`)
	b.eval("history.back()")
	b.await(`document.querySelector(".cite")`)
	b.eval(`document.querySelector(".actions a").click()`)
	b.await(button("Show the packages"))
	b.eval("history.back()")
	b.await(`document.querySelector(".cite")`)
}

// searchCatalogue finds the kept image of samtools 1.20 by its packages, and returns to searches with Back.
func (b *tab) searchCatalogue(p *program, id string) {
	b.t.Helper()
	b.eval(`[...document.querySelectorAll(".top nav a")].find((a) => a.innerText === "Catalogue").click()`)
	const found = `[...document.querySelectorAll(".rows a")].map((a) => a.href.split("/").at(-1)).join()`
	b.await(found + ` === "` + id + `"`)
	b.good("catalogue", p.url)
	b.put("#find", "samt")
	b.await(`location.search === "?q=samt" && ` + found + ` === "` + id + `"`)
	b.press("x")
	b.await(`location.search === "?q=samtx" && document.querySelector(".empty")?.innerText.startsWith("No kept image matches.")`)
	b.good("catalogue without a match", p.url)
	b.eval("history.back()")
	b.await(`location.search === "" && document.querySelector("#find").value === "" && ` + found + ` === "` + id + `"`)
	b.eval(`document.querySelector("[name=sort][value=pulls]").click()`)
	b.await(`location.search === "?sort=pulls"`)
	b.eval(`document.querySelector(".more summary").click()`)
	b.await(`document.querySelector("#version").disabled`)
	b.put("#package", "htslib"+kb.Tab)
	b.await(`location.search === "?package=htslib&sort=pulls" && !document.querySelector("#version").disabled`)
	b.put("#version", "1.17"+kb.Tab)
	b.await(`location.search === "?package=htslib&version=1.17&sort=pulls" && document.querySelector(".empty")`)
	b.reload()
	b.await(`document.querySelector(".empty") && document.querySelector("#version").value === "1.17" && document.querySelector("[name=sort]:checked").value === "pulls"`)
	b.eval("history.back()")
	b.await(`location.search === "?package=htslib&sort=pulls" && ` + found + ` === "` + id + `"`)
	b.put("#license", "mit"+kb.Tab)
	b.await(`location.search === "?package=htslib&license=mit&sort=pulls" && ` + found + ` === "` + id + `"`)
	b.good("catalogue with filters", p.url)
	b.eval(`document.querySelector(".rows a").click()`)
	b.await(`document.title === "samtools 1.20 · Slipway"`)
	b.eval("history.back()")
	b.await(`location.search === "?package=htslib&license=mit&sort=pulls" && document.querySelector("#license").value === "mit" && ` + found + ` === "` + id + `"`)
}

// TestWebPageOfKeptImages shows images that were kept from a lock, for Singularity, without success, and those that an
// operator has deleted. Without the means to keep images, the page does not offer it.
func TestWebPageOfKeptImages(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	plain, s, _ := webSettings(t)
	s["keep"], s["operator_accounts_file"] = "all", operatorsFile(t)
	p := oneProcess(t, common(t, plain, s))
	keep := func(packages map[string]any, more ...string) (at string) {
		packages["type"] = "CONDA"
		body := map[string]any{"packages": packages, "keep": true}
		for i := 0; i+1 < len(more); i += 2 {
			body[more[i]] = more[i+1]
		}
		answer := p.order(body)
		p.finished(t, answer)
		return p.url + "/c/" + text(answer, "keptId")
	}
	first := p.order(map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"samtools=1.19"}}})
	lock := p.call(http.MethodGet, "/v1alpha1/builds/"+text(first, "buildId")+"/lock?format=conda-lock", nil).body

	b := openTab(t, browser, keep(map[string]any{"environment": base64.StdEncoding.EncodeToString(lock)}))
	b.await(`document.querySelector("main").innerText.includes("3 packages, from a lock")`)
	b.await(`document.querySelectorAll("tbody tr").length === 3 && !document.querySelector(".folded") && document.querySelectorAll(".facts:not(.paper) dt").length === 6`)
	b.good("kept from a lock", p.url)
	b.eval(button("Make a variant") + ".click()")
	b.await(`document.querySelector("#environment")?.value.includes("samtools-1.19") && ` + webVerdict + ` === "These fit together."`)

	b.visit(keep(map[string]any{"entries": []string{"sambamba"}}, "format", "sif"))
	b.await(`document.querySelector(".copied.large code")?.innerText.startsWith("oras://") && document.querySelector(".uses .copied code").innerText.startsWith("apptainer pull image.sif oras://")`)
	b.good("kept Singularity image", p.url)
	b.eval(button("Make a variant") + ".click()")
	b.await(`document.querySelector("[name=format]:checked")?.value === "sif" && ` + chosen + ` === "sambamba="`)

	b.visit(keep(map[string]any{"entries": []string{"sambamba"}}, "format", "environment"))
	b.await(`/^slipway run [^ ]+\/c\/[^ ]+ -- CMD$/.test(document.querySelector(".uses .copied code")?.innerText) && !document.querySelector("main").textContent.includes("docker")`)
	b.good("kept environment", p.url)
	b.eval(button("Make a variant") + ".click()")
	const format = `document.querySelector("[name=format]:checked")?.value`
	b.await(format + ` === "environment" && ` + chosen + ` === "sambamba="`)
	b.eval(`document.getElementById("tab-image").click()`) // an image is not such an environment
	b.await(format + ` === "docker" && document.querySelector("[value=environment]").disabled`)
	b.eval(`document.getElementById("tab-packages").click()`)
	b.await(format + ` === "environment"`)
	b.eval(`document.getElementById("get").click()`)
	b.await(`document.getElementById("result-title")?.innerText === "Your environment" && document.querySelector(".result .uses .copied code")?.innerText.startsWith("slipway run ")`)
	b.good("environment", p.url)

	b.visit(keep(map[string]any{"entries": []string{"broken"}}))
	b.await(`document.querySelector(".verdict.bad")?.innerText === "Its build failed. A later pull builds it again."`)
	b.good("kept image that was not built", p.url)

	at := keep(map[string]any{"entries": []string{"htslib=1.17"}})
	r := p.call(http.MethodDelete, strings.Replace(strings.TrimPrefix(at, p.url), "/c/", "/v1alpha1/catalog/", 1)+"?reason=htslib+1.17+was+withdrawn", nil,
		"Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("ops:an operator's password")))
	if r.status != http.StatusNoContent {
		t.Fatalf("deleting: %d %s", r.status, r.body)
	}
	b.visit(at)
	b.await(`document.querySelector(".failed .why")?.innerText.endsWith("The reason: htslib 1.17 was withdrawn") && !document.querySelector(".uses")`)
	b.await(`document.querySelector(".cite .source")?.innerText.includes("htslib")`)
	b.good("deleted kept image", p.url)
	b.eval(button("Make a variant") + ".click()")
	b.await(chosen + ` === "htslib=1.17" && ` + webVerdict + ` === "This can be made."`)
	b.eval(webSubmit + ".click()")
	b.await(keepIt)
	b.eval(keepIt + ".click()")
	b.await(`document.querySelector(".keep .problem")?.innerText.includes("htslib 1.17 was withdrawn") && !document.querySelector(".keep .actions a")`)

	to, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	good := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1alpha1/abilities" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"abilities": [{"name": "conda", "available": false, "problem": "no worker assembles images"}]}`)
			return
		}
		good.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b = openTab(t, browser, front.URL+"/docs/")
	b.await(`document.querySelector(".foot a[href$='view/status']")`)
	b.eval(`document.querySelector(".foot a[href$='view/status']").click()`)
	b.await(`document.querySelector(".rows li .state")?.innerText === "No" && document.querySelector(".rows .note").innerText === "no worker assembles images"`)
	b.good("status", front.URL)
	for page, isAsked := range map[string]bool{front.URL + "/?p=samtools%3D1.19": true, p.url + "/?from=image&image=" + url.QueryEscape(s["conda_base_image"]): false} {
		b = openTab(t, browser, page)
		b.await("document.querySelector('#get:enabled')")
		b.eval(webSubmit + ".click()")
		b.await(webReady)
		b.await(fmt.Sprintf(`performance.getEntriesByType("resource").some((e) => e.name.endsWith("/v1alpha1/abilities") && e.responseEnd) === %t`, isAsked))
		b.eval(`setTimeout(() => { window.isLater = true; }, 200)`) // the page has shown what the response allows
		b.await(`window.isLater`)
		if got := b.text(`!!(` + keepIt + `)`); got != "false" {
			t.Errorf("%s offers to keep the image", page)
		}
	}
}

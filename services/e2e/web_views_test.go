package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

const (
	webReady = `document.querySelector(".result [role=status]")?.innerText.startsWith("Ready to pull.")`
	webName  = `document.querySelector(".copied.large code").innerText`
)

// put focuses an element and types into it.
func (b *tab) put(element, keys string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("document.querySelector(%q).focus()", element))
	b.press(keys)
}

// chosen is a JavaScript expression for the chosen packages with their versions.
const chosen = `[...document.querySelectorAll(".chip")].map((c) => c.querySelector(".name").innerText + "=" + (c.querySelector("select")?.value ?? "")).join(" ")`

// TestWebPageAcceptsTypedInput checks that typed specifications are understood, and that a
// shared URL restores the request without secrets.
func TestWebPageAcceptsTypedInput(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, base := webProgram(t)
	b := openTab(t, browser, p.url+"/")
	b.await(webField)
	b.put("#search", "samtools 1.19"+kb.Enter)
	b.await(chosen + ` === "samtools=1.19"`)
	b.await(`location.search === "?p=samtools%3D1.19"`)
	b.put("#search", "conda install -y -c conda-forge -c lab samtools=1.20, sambamba 1.0"+kb.Enter)
	b.await(`location.search === "?p=samtools%3D1.20&p=sambamba%3D1.0&channel=conda-forge&channel=lab"`)
	b.put("#search", "htslib >= 1.17 , <2"+kb.Enter)
	b.await(`new URLSearchParams(location.search).getAll("p")[2] === "htslib>=1.17,<2"`)
	b.await(webVerdict + ` === "These fit together."`)
	b.good("typed", p.url)

	name := p.submit(map[string]any{"containerImage": base})
	b = openTab(t, browser, p.url+"/?from=image&image="+base+"&p=samtools%3D1.19&channel=bioconda&platform=linux%2Farm64&format=sif")
	b.await(`document.querySelector("#image")?.value === "` + base + `"`)
	b.await(chosen + ` === "samtools=1.19"`)
	b.await(`[...document.querySelectorAll("input:checked")].map((i) => i.value).join() === "sif,linux/arm64"`)
	b.eval(`document.querySelector("#channels").select()`)
	b.press("https://me:secret@example.org/lab, https://example.org/t/secret/lab, conda-forge" + kb.Tab)
	b.await(`location.search.endsWith("&channel=conda-forge&platform=linux%2Farm64&format=sif")`)
	b.put("#search", "tab")
	b.await(`document.querySelectorAll("#found li").length === 1`)
	b.mu.Lock()
	for _, url := range b.requested {
		if strings.Contains(url, "secret") {
			t.Errorf("the page requests %s", url)
		}
	}
	b.mu.Unlock()
	b.eval(`document.querySelector("#image").select()`)
	b.press(name)
	b.await(`!location.search.includes("image=")`)
	if at := b.text("location.href"); strings.Contains(at, "secret") || strings.Contains(at, tokenOf(name)) {
		t.Errorf("the address is %s", at)
	}
}

// TestWebPageLimitsTheAgeOfPackages checks that the limits of the age of packages are part of the
// page's URL, of the lock that the page shows, and of the container request. They do not apply to
// a lock, for which the page does not show them.
func TestWebPageLimitsTheAgeOfPackages(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	b := openTab(t, browser, p.url+"/?p=samtools%3D1.20&asOf=2024-01-01")
	const notes = `[...document.querySelectorAll(".preflight .note")].map((n) => n.innerText).join()`
	b.await(webVerdict + ` === "This can be made."`)
	b.await(notes + `.includes("built until 2024-01-01")`)
	b.await(`document.querySelector("details.age").open && document.querySelector("#as-of").value === "2024-01-01"`)
	b.good("ages", p.url)

	retype := func(field, keys string) {
		b.eval(`document.querySelector("details.age").open = true`)
		b.eval(fmt.Sprintf("document.querySelector(%q).select()", field))
		b.press(keys)
	}
	retype("#as-of", "2020-01-01"+kb.Enter) // before the packages were built
	b.await(webVerdict + ` === "This cannot be made."`)
	b.await(`location.search === "?p=samtools%3D1.20&asOf=2020-01-01"`)
	retype("#as-of", kb.Backspace+kb.Tab)
	b.await(webVerdict + ` === "This can be made."`)
	retype("#min-age-except", "openssl, ca-certificates"+kb.Tab)
	b.await(`document.querySelector(".preflight.unknown")?.innerText.includes("minAgeExcept requires minAge")`)
	retype("#min-age", "3650d"+kb.Tab) // no package is that old
	b.await(webVerdict + ` === "This cannot be made."`)
	retype("#min-age", "7d"+kb.Tab)
	b.await(webVerdict + ` === "This can be made."`)
	b.await(`location.search === "?p=samtools%3D1.20&minAge=7d&minAgeExcept=openssl&minAgeExcept=ca-certificates"`)

	b.eval(`window.bodies = []; const real = window.fetch; window.fetch = (at, how) => { window.bodies.push([String(at), how?.body ?? ""]); return real(at, how); }`)
	b.eval(webSubmit + ".click()")
	b.await(`document.querySelector(".copied.large code")`)
	b.await(`window.bodies.some(([at, body]) => at.endsWith("v1alpha2/container") && body.includes('"minAge":"7d","minAgeExcept":["openssl","ca-certificates"]'))`)

	b.eval(`document.querySelector("#tab-environment").click()`)
	b.await(`document.querySelector("#environment") && document.querySelector("#min-age")`)
	b.put("#environment", "@EXPLICIT"+kb.Enter)
	b.await(`!document.querySelector("#min-age")`)
}

// TestWebPageAddsToAnImage adds packages, settings and a file to an image, using the keyboard
// only.
func TestWebPageAddsToAnImage(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, base := webProgram(t)
	b := openTab(t, browser, p.url+"/")
	b.await(`document.querySelector("[role=tab]")`)
	b.put("#tab-packages", kb.ArrowLeft)
	b.await(`document.querySelector("#image")`)
	b.good("existing-image", p.url)
	b.put("#image", base)
	b.put("#search", "samtools 1.20"+kb.Enter)
	b.await(webVerdict + ` === "This can be made."`)
	b.eval(`document.querySelectorAll("details.more").forEach((d) => (d.open = true))`)
	b.put("#cmd", `view "a file"`)
	b.put("#env", "GREETING=hello there\rLANG=C")
	b.eval(`{ const d = new DataTransfer(); d.items.add(new File(["#!/bin/sh\necho hello\n"], "greet.sh"));
		const input = document.querySelector(".drop input:not([webkitdirectory])"); input.files = d.files; input.dispatchEvent(new Event("change", {bubbles: true})); }`)
	b.await(`document.querySelector(".drop")?.innerText.startsWith("1 file, 21 B")`)
	b.good("additions", p.url)
	b.put("#get", kb.Enter)
	b.await(webReady)
	img := pull(t, b.text(webName), "amd64")
	content := files(t, img)
	if content["opt/conda/share/samtools"] != "1.20" || content["greet.sh"] != "#!/bin/sh\necho hello\n" {
		t.Errorf("the image has %v", content)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if env := strings.Join(cf.Config.Env, "\n"); !strings.Contains(env, "GREETING=hello there\nLANG=C") || strings.Join(cf.Config.Cmd, "|") != "view|a file" {
		t.Errorf("the image's settings are %v", cf.Config)
	}
	if at := b.text("location.search"); strings.Contains(at, "GREETING") {
		t.Errorf("the URL is %s", at)
	}

	b.eval(`[...document.querySelectorAll(".result a")].find((a) => a.href.includes("/view/containers/")).click()`)
	b.await(`document.querySelector("h1.id + .verdict")?.innerText === "Ready to pull."`)
	b.await(`document.querySelector(".facts")?.innerText.includes("GREETING LANG")`)
	if at := b.text("location.href"); !strings.HasSuffix(at, "/view/containers/"+idOf(b.text(webName))) {
		t.Errorf("the URL of its page is %s", at)
	}
	b.good("container", p.url)
	b.eval(`[...document.querySelectorAll("button")].find((x) => x.innerText === "Revoke the name").focus()`)
	b.press(kb.Enter)
	b.await(`[...document.querySelectorAll("button")].some((x) => x.innerText === "Revoke it")`)
	b.good("revoking", p.url)
	b.eval(`[...document.querySelectorAll("button")].find((x) => x.innerText === "Revoke it").focus()`)
	b.press(kb.Enter)
	b.await(`document.querySelector("h1.id + .verdict")?.innerText.startsWith("It was revoked on")`)
	b.good("revoked", p.url)
	b = openTab(t, browser, p.url+"/view/containers/"+strings.Repeat("a", 26))
	b.await(`document.querySelector("h1").innerText === "There is no such container"`)
	b.good("no-container", p.url)
}

// TestWebPageForTwoPlatforms requests one image for two platforms.
func TestWebPageForTwoPlatforms(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachWebProgram(t, func(t *testing.T, p *program, _ string) {
		b := openTab(t, browser, p.url+"/?p=tables")
		b.await(webVerdict + ` === "This can be made."`)
		b.put(`[name=platform]:checked`, kb.ArrowRight+kb.ArrowRight)
		b.await(`location.search.includes("platform=linux%2Famd64%2Clinux%2Farm64")`)
		b.await(`document.querySelectorAll(".contents").length === 2`)
		b.good("both", p.url)
		b.put("#get", kb.Enter)
		b.await(webReady)
		for _, arch := range []string{"amd64", "arm64"} {
			if content := files(t, pull(t, b.text(webName), arch)); content["opt/conda/share/tables"] != "3.9" {
				t.Errorf("for %s the image has %v", arch, content)
			}
		}
		b.eval(`document.querySelector(".result [role=status] a").click()`)
		b.await(`document.querySelectorAll("table").length === 2`)
		b.await(`document.querySelector(".facts dd")?.innerText === "linux/amd64 and linux/arm64"`)
		b.good("build-for-both", p.url)
	})
}

// TestWebPageTakesALock drops the lock of a build on the page, which must give an image of the
// same packages. The page of the build shows its layers and can request it again.
func TestWebPageTakesALock(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	first := p.order(map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"samtools=1.19"}}})
	p.finished(t, first)
	lock := string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(first, "buildId")+"/lock?format=explicit", nil).body)
	b := openTab(t, browser, p.url+"/?from=environment")
	b.await(`document.querySelector("#environment")`)
	b.eval(fmt.Sprintf(`{ const d = new DataTransfer(); d.items.add(new File([%q], "explicit.txt"));
		document.querySelector("#environment").dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true})); }`, lock))
	b.await(`document.querySelector(".recipe + .note")?.innerText.startsWith("A lock: exactly its 3 packages for linux/amd64")`)
	b.await(webVerdict + ` === "These fit together."`)
	b.good("lock", p.url)
	b.put("#get", kb.Enter)
	b.await(webReady)
	// The lock is sent unchanged: the same packages, under a name derived from the lock.
	if got, want := condaMeta(files(t, pull(t, b.text(webName), "amd64"))), condaMeta(files(t, pull(t, text(first, "targetImage"), "amd64"))); len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("the image of the lock has the packages %v, want %v", got, want)
	}

	b = openTab(t, browser, p.url+"/view/builds/"+text(first, "buildId"))
	b.await(`[...document.querySelectorAll("button")].find((x) => x.innerText === "Show its layers")`)
	b.eval(`[...document.querySelectorAll("button")].find((x) => x.innerText === "Show its layers").click()`)
	b.await(`document.querySelector(".layers")?.innerText.includes("conda: samtools 1.19")`)
	b.good("layers", p.url)
	b.put(".find", "FETCHED")
	b.await(`document.querySelector(".bar .note").innerText === "3 lines" && document.querySelectorAll(".log mark").length === 3`)
	b.good("found-in-log", p.url)
	b.eval(`[...document.querySelectorAll("button")].find((x) => x.innerText === "Build again").focus()`)
	b.press(kb.Enter)
	b.await(chosen + ` === "samtools=1.19"`)
	b.await(`location.search.startsWith("?p=samtools%3D1.19")`)
	chooseEnvironment(t, browser, p)
	chooseCategory(t, browser, p)
}

// paste replaces the text of the environment file on the page.
func (b *tab) paste(text string) {
	b.t.Helper()
	b.await(`document.querySelector("#environment")`)
	b.eval(fmt.Sprintf(`(() => { const e = document.querySelector("#environment"); e.value = %q; e.dispatchEvent(new Event("input", { bubbles: true })); })()`, text))
}

// choose chooses one of the environments that the page lists, which must be those in all.
func (b *tab) choose(name string, all ...string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll("#environment-name option")].map((o) => o.innerText).join() === %q`, strings.Join(all, ",")))
	b.eval(fmt.Sprintf(`(() => { const e = document.querySelector("#environment-name"); e.value = %q; e.dispatchEvent(new Event("change", { bubbles: true })); })()`, name))
}

// chooseEnvironment pastes a pixi.lock with two environments on the page and chooses the second
// one, whose packages the image must have.
func chooseEnvironment(t *testing.T, browser context.Context, p *program) {
	t.Helper()
	lock := p.call(http.MethodPost, "/v1alpha1/conda/lock", map[string]any{"format": "pixi", "packages": map[string]any{"type": "CONDA", "entries": []string{"samtools=1.19"}}})
	head, rest, isPixi := strings.Cut(string(lock.body), "  default:\n")
	packages, tail, isComplete := strings.Cut(rest, "\npackages:\n")
	if lock.status != http.StatusOK || !isPixi || !isComplete {
		t.Fatalf("the lock is %d %s", lock.status, lock.body)
	}
	var small []string
	for _, line := range strings.Split(packages, "\n") {
		if !strings.Contains(line, "- conda:") || strings.Contains(line, "/htslib-") {
			small = append(small, line)
		}
	}
	both := head + "  default:\n" + packages + "\n  small:\n" + strings.Join(small, "\n") + "\npackages:\n" + tail
	b := openTab(t, browser, p.url+"/?from=environment")
	b.paste(both)
	b.await(`document.querySelector("#environment-name")?.value === "default"`)
	b.await(`document.querySelector(".space + .note")?.innerText.startsWith("A lock: exactly its 2 packages for linux/amd64")`)
	b.choose("small", "default", "small")
	b.await(`document.querySelector(".space + .note")?.innerText.startsWith("A lock: exactly its 1 package for linux/amd64")`)
	b.await(webVerdict + ` === "These fit together."`)
	b.good("lock-environments", p.url)
	b.put("#get", kb.Enter)
	b.await(webReady)
	if got := condaMeta(files(t, pull(t, b.text(webName), "amd64"))); !slices.Equal(got, []string{"htslib-1.20-h0_0.json"}) {
		t.Errorf("the image of the environment has the packages %v", got)
	}
}

// chooseCategory pastes a conda-lock.yml on the page and chooses a category, whose packages the
// image must have besides those of main. Its name is the environment that other files need not name.
func chooseCategory(t *testing.T, browser context.Context, p *program) {
	t.Helper()
	lock := p.call(http.MethodPost, "/v1alpha1/conda/lock", map[string]any{"format": "conda-lock", "packages": map[string]any{"type": "CONDA", "entries": []string{"samtools=1.19"}}})
	at := strings.Index(string(lock.body), "name: samtools")
	if at < 0 {
		at = strings.Index(string(lock.body), `name: "samtools"`)
	}
	if lock.status != http.StatusOK || at < 0 {
		t.Fatalf("the lock is %d %s", lock.status, lock.body)
	}
	b := openTab(t, browser, p.url+"/?from=environment")
	b.paste(string(lock.body[:at]) + strings.Replace(string(lock.body[at:]), "category: main", "category: default", 1))
	b.await(`document.querySelector(".space + .note")?.innerText.startsWith("A lock: exactly its 1 package for linux/amd64")`)
	b.choose("default", "main", "main and default")
	b.await(`document.querySelector(".space + .note")?.innerText.startsWith("A lock: exactly its 2 packages for linux/amd64")`)
	b.await(webVerdict + ` === "These fit together."`)
	b.good("lock-categories", p.url)
	b.put("#get", kb.Enter)
	b.await(webReady)
	if got := condaMeta(files(t, pull(t, b.text(webName), "amd64"))); !slices.Equal(got, []string{"htslib-1.20-h0_0.json", "samtools-1.19-h0_0.json"}) {
		t.Errorf("the image of the category has the packages %v", got)
	}
}

// webManifest is a pyproject.toml with environments in each form that TOML has. The text of a task
// resembles an environment, and must not be listed.
const webManifest = `[project]
name = "tools"

[tool.pixi.workspace]
channels = ["conda-forge"]
platforms = ["linux-64"]

[tool.pixi.dependencies]
samtools = "1.19.*"

[tool.pixi.feature.old.dependencies]
htslib = "1.17.*"

[tool.pixi.tasks]
note = """
[tool.pixi.environments]
nothing = []
"""

[tool.pixi.environments]
both = [
  "old",
]
"old-1.17" = { features = ["old"], no-default-feature = true } # alone

[tool.pixi.environments.plain]
solve-group = "default"
`

// TestWebPageTakesAManifest chooses an environment of a manifest of pixi on the page, whose packages
// the image must have.
func TestWebPageTakesAManifest(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	b := openTab(t, browser, p.url+"/?from=environment")
	b.paste(webManifest)
	b.await(`document.querySelector("#environment-name")?.value === "default"`)
	const solved = `[...document.querySelectorAll(".contents tr")].map((r) => [...r.cells].slice(0, 2).map((c) => c.textContent).join(" "))`
	b.await(solved + `.includes("samtools 1.19")`)
	b.choose("old-1.17", "default", "both", "old-1.17", "plain")
	b.await(solved + `.includes("htslib 1.17") && !` + solved + `.includes("samtools 1.19") && ` + webVerdict + ` === "These fit together."`)
	b.good("manifest", p.url)
	b.put("#get", kb.Enter)
	b.await(webReady)
	if got := condaMeta(files(t, pull(t, b.text(webName), "amd64"))); !slices.Contains(got, "htslib-1.17-h0_0.json") || slices.Contains(got, "samtools-1.19-h0_0.json") {
		t.Errorf("the image of the environment has the packages %v", got)
	}

	// A pixi.toml has the same tables at the top level.
	tables, _, isCut := strings.Cut(strings.ReplaceAll(webManifest, "tool.pixi.", ""), "[environments]\nboth")
	_, tables, isProject := strings.Cut(tables, "\n\n")
	if !isCut || !isProject {
		t.Fatal("the manifest has other tables")
	}
	b.paste(`environments = { both = ["old"], "old-1.17" = { features = ["old"], no-default-feature = true } }` + "\n" + tables)
	b.choose("both", "default", "both", "old-1.17")
	b.await(solved + `.includes("htslib 1.17") && ` + solved + `.includes("samtools 1.19")`)
}

// condaMeta returns the names of the records of installed packages, in order.
func condaMeta(content map[string]string) (names []string) {
	for path := range content {
		if name, ok := strings.CutPrefix(path, "opt/conda/conda-meta/"); ok && strings.HasSuffix(name, ".json") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestWebPageOfDocumentation reads and searches the documentation that the program serves.
func TestWebPageOfDocumentation(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	b := openTab(t, browser, p.url+"/")
	b.await(webField)
	b.eval(`document.querySelector(".top nav a[href$='docs/']").click()`)
	b.await(`document.querySelector("article h1")?.innerText === "Documentation"`)
	b.good("start", p.url)

	b.press("/")
	b.await(`document.activeElement.id === "words"`)
	b.eval(`document.querySelector("#words").select()`) // the browser's own keyboard would not type the key
	b.press("registry_auth_file")
	b.await(`document.querySelector("#hits a")?.innerText.endsWith(": registry_auth_file")`)
	b.good("hits", p.url)
	b.press(kb.Enter)
	b.await(`location.pathname + location.hash === "/docs/operate/config#registry_auth_file"`)
	b.await(`document.querySelector("tr:target td").innerText === "registry_auth_file"`)
	b.good("setting", p.url)

	b.put("#words", "mount squashfuse-nothing")
	b.await(`document.querySelector("#hits").innerText === "No page has these words."`)
	b.press(kb.Escape)
	b.await(`document.querySelector("#hits").hidden`)
	b.put("#words", "signed environment")
	b.await(`[...document.querySelectorAll("#hits a")].some((a) => a.getAttribute("href").endsWith("guide/run#only-signed-environments"))`)
	b.eval(`[...document.querySelectorAll("#hits a")].find((a) => a.getAttribute("href").endsWith("guide/run#only-signed-environments")).click()`)
	b.await(`document.querySelector("h2:target")?.innerText === "Only signed environments"`)
	b.good("page", p.url)
	if got := b.text(`[...document.querySelectorAll(".pages [aria-current]")].map((a) => a.innerText).join()`); got != "Run without installing" {
		t.Errorf("the menu marks %q", got)
	}

	b = openTab(t, browser, p.url+"/v1alpha9/nothing")
	b.await(`document.querySelector("h1")?.innerText === "There is no such page"`)

	// A message that names a setting leads to its description.
	b = openTab(t, browser, p.url+"/view/inspect?image=10.255.255.1/no/such:1")
	b.await(`document.querySelector(".why a")?.getAttribute("href").includes("/docs/operate/config#")`)
	if got := b.text(`document.querySelector(".why").innerText`); !strings.Contains(got, b.text(`document.querySelector(".why a").innerText`)) {
		t.Errorf("the message is %q", got)
	}
	b.good("message", p.url)
}

package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestWebPageHistory checks that Back, Forward and a reload return to what was shown, that recent requests are listed,
// and that no image name is in an address or in storage that outlives the tab.
func TestWebPageHistory(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	b := openTab(t, browser, p.url+"/")
	b.await(webField)
	b.await(`[...document.querySelectorAll(".examples button")].map((e) => e.innerText).join() === "samtools and bwa,R with Seurat,PyTorch for GPUs"`)
	b.put("#search", "samt")
	b.await(webField + `.getAttribute("aria-activedescendant") === "found-0"`)
	b.press(kb.Enter) // takes the package that was found, and not the typed text
	b.await(chosen + ` === "samtools="`)
	b.eval(`document.querySelector("#tab-image").click()`)
	b.await(`location.search === "?from=image&p=samtools"`)
	b.eval(`history.back()`)
	b.await(`location.search === "?p=samtools" && document.querySelector("#tab-packages").ariaSelected === "true"`)
	b.await(webVerdict + ` === "This can be made."`)
	b.eval(webSubmit + ".click()")
	b.await(webReady)
	name := b.text(webName)
	b.reload()
	b.await(`document.querySelector(".copied.large code")?.innerText === "` + name + `"`)
	b.good("after a reload", p.url)
	b.await(`document.querySelector(".brief p").innerText === "samtools · x86-64 · Docker" && !document.querySelector("form.order").checkVisibility()`)
	b.unfold()
	b.await(webNamed(name)) // until the request changes
	b.good("unfolded", p.url)
	b.eval(`document.querySelector(".chip .remove").click()`)
	b.await(`!document.querySelector(".result") && location.search === ""`)
	b.await(`document.querySelector(".recent a")?.innerText === "samtools"`)
	b.good("recent", p.url)
	b.eval(`history.back()`)
	b.await(`document.querySelector(".copied.large code")?.innerText === "` + name + `"`)
	b.eval(`history.back()`)
	b.await(`!document.querySelector(".result") && location.search === "?p=samtools"`)
	b.eval(`history.forward()`)
	b.await(`document.querySelector(".copied.large code")?.innerText === "` + name + `"`)
	if got := b.text(`JSON.stringify(localStorage) + location.href`); strings.Contains(got, tokenOf(name)) {
		t.Errorf("the token is in %s", got)
	}
	b.eval(`document.querySelector("#tab-environment").click()`)
	b.await(`document.querySelector("#environment")`)
	b.put("#environment", "dependencies:\r  - samtools=1.20")
	b.await(webVerdict + ` === "These fit together."`)
	b.eval(webSubmit + ".click()")
	b.await(webReady)
	name = b.text(webName)
	b.reload() // restores the text, too, which is not in the address
	b.await(`document.querySelector(".copied.large code")?.innerText === "` + name + `" && document.querySelector("#environment").value.includes("samtools=1.20") && document.activeElement.id === "result-title"`)
	b.unfold()
	b.put("#environment", "\r  - bwa")
	b.await(`!document.querySelector(".result")`)
	b.eval(`location.assign("/")`)
	b.await(`document.querySelector(".recent a")?.innerText === "samtools"`)
	b.eval(`document.querySelector(".recent a").click()`)
	b.await(chosen + ` === "samtools="`)
	b.eval(`document.querySelector(".chip .remove").click()`)
	b.await(`document.querySelector(".recent button")`)
	b.eval(`document.querySelector(".recent button").click()`)
	b.await(`!document.querySelector(".recent") && localStorage.length === 0`)
}

package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// formShown describes the elements of the form and their texts.
const formShown = `(() => {
  const shown = [...document.querySelectorAll("#page *")].filter((e) => e.checkVisibility() && !e.matches("noscript, noscript *, option"));
  return shown.map((e) => [e.localName, e.id, e.className, e.getAttribute("role"), [...e.childNodes].map((n) => n.nodeType === 3 ? n.data.trim() : "").join("")].join(" ").trim())
    .join("\n").replaceAll("combobox", "").replaceAll(/ +\n/g, "\n");
})()`

// TestWebPageFormBeforeScripts uses the form without scripts, and checks that the scripts show the same form.
func TestWebPageFormBeforeScripts(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachWebProgram(t, func(t *testing.T, p *program, _ string) {
		b := openTab(t, browser, "about:blank")
		b.scripts(false)
		b.open(p.url + "/")
		b.await(webField)
		if got := b.text(webField + `.getAttribute("role")`); got != "null" {
			t.Fatalf("the scripts ran: the field's role is %s", got)
		}
		before := b.text(formShown)
		b.eval(webField + ".focus()")
		b.press("samtools=1.20 sambamba" + kb.Enter)
		b.await(`location.search.includes("p=samtools%3D1.20+sambamba")`)
		b.scripts(true)
		b.reload()
		b.await(`document.querySelectorAll(".chip").length === 2`)
		b.await(`location.search === "?p=samtools%3D1.20&p=sambamba"`)

		b.open(p.url + "/")
		b.await(webField + `.getAttribute("role") === "combobox"`)
		b.await(webSubmit + ".disabled") // effects ran
		if got := b.text(`document.querySelector(".foot").innerText`); !strings.Contains(got, "Slipway 0.0.0-dev") || !strings.Contains(got, "Documentation") {
			t.Errorf("the footer is %q", got)
		}
		if after := b.text(formShown); after != before {
			t.Errorf("the scripts show\n%s\nthe document\n%s", after, before)
		}
		b.await(`[...document.styleSheets].some((s) => s.href?.endsWith("style.css"))`)
		b.await(`document.readyState === "complete"`)
		size := `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].reduce((sum, e) => sum + e.encodedBodySize, 0)`
		if got := b.text(size + " <= 60000 && " + size + " > 10000"); got != "true" {
			t.Errorf("the first view has %s bytes", b.text(size))
		}
	})
}

// TestWebPageKeepsWhatWasTyped checks that text and options that were entered before the script arrived stay, with
// the focus. The script is at the end of the document.
func TestWebPageKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachWebProgram(t, func(t *testing.T, p *program, _ string) {
		at, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		rest, arrive := httputil.NewSingleHostReverseProxy(at), make(chan struct{})
		release := sync.OnceFunc(func() { close(arrive) })
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				rest.ServeHTTP(w, r)
				return
			}
			r.Header.Del("Accept-Encoding")
			whole := httptest.NewRecorder()
			rest.ServeHTTP(whole, r)
			form, script, _ := strings.Cut(whole.Body.String(), `<script type="module">`)
			maps.Copy(w.Header(), whole.Header())
			w.Header().Del("Content-Length")
			_, _ = io.WriteString(w, form) // the browser may be closed
			_ = http.NewResponseController(w).Flush()
			<-arrive
			_, _ = io.WriteString(w, `<script type="module">`+script)
		}))
		t.Cleanup(front.Close)
		t.Cleanup(release)
		b := openTab(t, browser, "about:blank")
		b.eval(fmt.Sprintf("location.assign(%q)", front.URL+"/"))
		b.await(`location.host && ` + webField)
		b.eval(webField + ".focus()")
		b.press("sam")
		b.eval(`document.querySelector("input[value=sif]").click()`)
		b.eval(webField + ".focus()")
		release()
		b.await(`document.querySelectorAll("#found li").length === 2`)
		if got := b.text(webField + `.value + " " + document.activeElement.id + " " + document.querySelector("[name=format]:checked").value`); got != "sam search sif" {
			t.Errorf("the text, the focus and the format are %s", got)
		}
		b.press(kb.ArrowDown + kb.Enter)
		b.await(`document.querySelector(".chip .name")?.innerText === "samtools" && location.search.includes("format=sif")`)
	})
}

// open navigates to an address.
func (b *tab) open(url string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx(), chromedp.Navigate(url)))
}

// scripts switches the scripts of pages on or off.
func (b *tab) scripts(on bool) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx(), emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
	b.must(err)
}

// unfold shows the form of a result again.
func (b *tab) unfold() {
	b.t.Helper()
	b.eval(`document.querySelector(".brief button").click()`)
	b.await(`!document.querySelector(".brief") && document.activeElement.matches("#panel *")`)
}

// TestWebPageCancelsASearch types while the response to a search is being read: the search is cancelled, which is no failure.
func TestWebPageCancelsASearch(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p, _ := webProgram(t)
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	rest, cancelled := httputil.NewSingleHostReverseProxy(at), make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1alpha1/conda/packages" || r.URL.Query().Get("q") != "sam" {
			rest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"packages": [`) // the browser may be closed
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(cancelled)
	}))
	t.Cleanup(front.Close)
	b := openTab(t, browser, front.URL+"/")
	b.await(webField)
	b.put("#search", "sam")
	b.await(`performance.getEntriesByType("resource").length > 0 && window.isLater || !setTimeout(() => { window.isLater = true; }, 500)`)
	b.press("t")
	b.await(`document.querySelectorAll("#found li").length === 1`)
	<-cancelled
	if got := b.text(`document.querySelector(".search").innerText`); strings.Contains(got, "status") {
		t.Errorf("the page shows %q", got)
	}
}

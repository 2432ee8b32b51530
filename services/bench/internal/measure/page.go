package measure

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// A view is what Chromium reports about a load of the first view, in milliseconds since the navigation, and bytes.
type view struct {
	Paint, Usable, Search, Bytes float64
}

// Page measures the first view of the web page in Chromium: on a slow network, with an empty cache, until the form is
// painted and until its scripts run; and on the loopback interface, from the response to a search to the painted list.
func Page(w *world.World, s *figure.Sheet) {
	front := searchable(w.StartSlipway().Addr)
	defer front.Close()
	browser, quit := startChromium(w.Ctx)
	defer quit()
	var paint, usable, search, bytes []float64
	for range w.Rounds {
		slow := look(browser, front.URL, &network.Conditions{Latency: 800, DownloadThroughput: 20_000, UploadThroughput: 20_000})
		paint, usable, bytes = append(paint, slow.Paint), append(usable, slow.Usable), append(bytes, slow.Bytes/1000)
		search = append(search, look(browser, front.URL, nil).Search)
	}
	s.Remark = "800 ms, 20 kB/s"
	s.Check("first paint", figure.Median(paint), "ms", figure.AtMost(1500))
	s.Check("usable", figure.Median(usable), "ms", figure.AtMost(3000))
	s.Remark = "with the documents and the headers"
	s.Check("first view", figure.Median(bytes), "kB", figure.AtMost(60))
	s.Remark = "loopback"
	s.Check("search response to screen", figure.Median(search), "ms", figure.AtMost(50))
}

// searchable returns a server that forwards to slipwayd, except for searches: they have the same results at once.
func searchable(addr string) *httptest.Server {
	rest := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	return httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1alpha1/conda/packages" {
			rest.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"packages":[{"name":"samtools","version":"1.20","channel":"bioconda","summary":"Tools for alignments"},`+
			`{"name":"sambamba","version":"1.0","channel":"bioconda","summary":"Tools for BAM files"}],"total":2}`)
	}))
}

// startChromium starts a browser. quit ends it.
func startChromium(ctx context.Context) (browser context.Context, quit func()) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		must.Fail("there is no chromium (apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("disable-dev-shm-usage", true))
	allocated, free := chromedp.NewExecAllocator(ctx, options...)
	browser, shut := chromedp.NewContext(allocated)
	must.Do(chromedp.Do(browser, chromedp.Navigate("about:blank")))
	return browser, func() {
		shut()
		free()
	}
}

// observe records when the scripts have replaced the field of the document by that with suggestions.
const observe = `new MutationObserver((_, o) => {
  if (!document.querySelector("#search[role=combobox]")) return;
  o.disconnect();
  window.usable = performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true })`

// viewed waits until the page is idle, and types a letter into the field.
const viewed = `(async () => {
  const until = async (ready) => { while (!ready()) await new Promise((done) => setTimeout(done, 20)); };
  const paint = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  await until(() => window.usable && paint() && document.readyState === "complete" && document.styleSheets.length);
  const of = (type) => performance.getEntriesByType(type).reduce((sum, e) => sum + e.transferSize, 0);
  const bytes = of("navigation") + of("resource");
  const field = document.querySelector("#search");
  const painted = new Promise((done) => new MutationObserver((_, o) => {
    if (!document.querySelector("#found li")) return;
    o.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  }).observe(document.body, { subtree: true, childList: true, attributes: true }));
  field.focus();
  field.value = "sam";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  const at = await painted;
  const response = performance.getEntriesByType("resource").find((e) => e.name.includes("conda/packages"));
  return { Paint: paint(), Usable: window.usable, Search: at - response.responseEnd, Bytes: bytes };
})()`

// look loads the page in a new profile of the browser.
func look(browser context.Context, url string, slow *network.Conditions) view {
	ctx, shut := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	defer shut()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	must.Get(chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: observe}))
	must.Get(chromedp.Call(ctx, network.Enable, network.EnableParams{}))
	if slow != nil {
		must.Get(chromedp.Call(ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{slow}}))
	}
	must.Do(chromedp.Do(ctx, chromedp.EmulateViewport(1000, 900), chromedp.Navigate(url+"/")))
	return must.Get(chromedp.Run(ctx, chromedp.Evaluate[view](viewed, chromedp.EvalAwaitPromise)))
}

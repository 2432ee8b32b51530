package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"slipway.dev/gateway/contracttest"
)

// TestReferenceInChromium opens the reference pages in a browser and tries a call on each: at
// both base URLs, and below a path prefix that only a proxy knows.
func TestReferenceInChromium(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	p := oneProcess(t, common(t, nil, nil))
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/some/where", httputil.NewSingleHostReverseProxy(at)))
	t.Cleanup(proxy.Close)

	container := page{"Container-GetServiceInfo", "Container-SubmitContainer", "1.31.0", containerDocument}
	platform := page{"service-info-GetServiceInfo", "tokens-CreateToken", "1.198.0", platformDocument}
	for _, c := range []struct {
		base string
		page page
	}{{p.url, container}, {p.url + "/api", platform}, {proxy.URL + "/some/where", container}} {
		readReference(t, browser, c.base, c.page)
	}
}

// page is the expected content: the ids of two operations, and the response of the first.
type page struct {
	info, submit, want string
	doc                func() (*contracttest.Document, error)
}

// readReference opens the reference of an API from its first page, checks that it lists every
// operation, and tries the first one, /service-info.
func readReference(t *testing.T, browser context.Context, base string, c page) {
	t.Helper()
	doc, err := c.doc()
	if err != nil {
		t.Fatal(err)
	}
	tab, shut := chromedp.NewContext(browser)
	defer shut()
	tab, cancel := context.WithTimeout(tab, 8*time.Minute)
	defer cancel()
	var complaints complaints
	if err := chromedp.Listen(tab, complaints.record); err != nil {
		t.Fatal(err)
	}
	operations := 0
	for _, item := range doc.Paths.Map() {
		operations += len(item.Operations())
	}
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v; the browser reports %q", base, err, complaints.all())
		}
	}
	eval := func(js string) {
		t.Helper()
		fatal(chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](js)))
	}
	until := func(js string) { // the page's content security policy forbids chromedp's own polling
		t.Helper()
		fatal(within(2*time.Minute, func() error {
			if ok, err := chromedp.Run(tab, chromedp.Evaluate[bool]("!!("+js+")")); err != nil || !ok {
				return errors.Join(fmt.Errorf("%s does not become true", js), err)
			}
			return nil
		}))
	}
	operation := func(id string) string { return fmt.Sprintf("document.querySelector(`#operations-%s`)", id) }
	info, submit := operation(c.info), operation(c.submit)
	fatal(chromedp.Do(tab, chromedp.Navigate(base+"/")))
	const reference = `document.querySelector("a[href$='openapi/']")`
	until(reference)
	eval(reference + ".click()")
	until(fmt.Sprintf(`document.querySelectorAll(".opblock").length === %d`, operations))
	// Both operations must show examples of a request and a response.
	for _, op := range []string{submit, info} {
		eval(op + `.querySelector(".opblock-summary-control").click()`)
		until(op + `.querySelector(".responses-inner .example .highlight-code, .responses-inner .highlight-code")`)
	}
	until(submit + `.querySelector(".body-param__example, .opblock-section-request-body .highlight-code")`)
	until(`document.querySelector(".opblock") === ` + info)
	eval(info + `.querySelector(".try-out__btn").click()`)
	until(info + `.querySelector(".execute")`)
	eval(info + `.querySelector(".execute").click()`)
	const answer = `.querySelector(".live-responses-table tbody")`
	until(info + answer + `?.querySelector(".response-col_status").innerText.trim() === "200"`)
	until(info + answer + `.querySelector(".highlight-code").innerText.includes("` + c.want + `")`)
	asked, err := chromedp.Run(tab, chromedp.Evaluate[string](info+`.querySelector(".request-url pre").innerText`))
	fatal(err)
	if strings.TrimSpace(asked) != base+"/service-info" {
		t.Errorf("%s: the page requests %s", base, asked)
	}
	if said := complaints.all(); len(said) > 0 {
		t.Errorf("%s: the browser reports %q", base, said)
	}
}

// complaints are errors that a browser reports: script errors, missing resources, and
// violations of the content security policy.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) record(event any) {
	var said string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = e.ExceptionDetails.Text + " " + e.ExceptionDetails.URL
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			for _, a := range e.Args {
				said += string(a.Value) + a.Description
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			said = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if said != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, said)
	}
}

func (c *complaints) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.list...)
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"slipway.dev/services/internal/testkit"
)

// newChromium starts a browser that ends with the test. Without real servers it skips the test.
func newChromium(t *testing.T, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if !testkit.Real() {
		t.Skip("needs Chromium (SLIPWAY_TEST_REAL)")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(2*time.Minute), chromedp.Flag("disable-dev-shm-usage", true))
	options = append(options, more...)
	browser, quit := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(quit)
	return browser
}

// A tab is a browser tab that records the browser's errors and the requested URLs.
type tab struct {
	t   *testing.T
	ctx func() context.Context // the tab's context in chromedp
	complaints

	mu        sync.Mutex
	requested []string
}

func openTab(t *testing.T, browser context.Context, url string) *tab {
	t.Helper()
	ctx, shut := chromedp.NewContext(browser)
	t.Cleanup(shut)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: func() context.Context { return ctx }}
	b.must(chromedp.Listen(ctx, func(event any) {
		b.record(event)
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.requested = append(b.requested, e.Request.URL)
		}
	}))
	b.must(chromedp.Do(ctx, chromedp.EmulateViewport(1000, 900), chromedp.Navigate(url)))
	return b
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v; the browser reports %q", err, b.all())
	}
}

// await waits until an expression is true.
func (b *tab) await(js string) {
	b.t.Helper()
	if err := within(time.Minute, func() error {
		if ok, err := chromedp.Run(b.ctx(), chromedp.Evaluate[bool]("!!("+js+")")); err != nil || !ok {
			return errors.Join(fmt.Errorf("%s does not become true", js), err)
		}
		return nil
	}); err != nil {
		b.t.Fatalf("%v; the page shows:\n%s\nthe browser reports %q", err, b.text("document.body.innerText"), b.all())
	}
}

// text returns the value of an expression.
func (b *tab) text(js string) string {
	b.t.Helper()
	s, err := chromedp.Run(b.ctx(), chromedp.Evaluate[string]("String("+js+")"))
	b.must(err)
	return s
}

// press types keys into the focused element.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx(), chromedp.KeyEvent(keys)))
}

func (b *tab) eval(js string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx(), chromedp.Evaluate[chromedp.Void](js)))
}

// reload loads the page again, and waits until the old document has been replaced.
func (b *tab) reload() {
	b.t.Helper()
	b.eval(`window.isOld = true; location.reload()`)
	b.await(`!window.isOld && document.readyState === "complete"`)
}

// good checks properties of every page: no errors, no requests to other origins, a layout that
// fits a phone, and accessibility in light and dark mode.
func (b *tab) good(state, origin string) {
	b.t.Helper()
	b.await(`document.readyState === "complete"`) // the style has been loaded
	for _, theme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx(), emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
		b.must(err)
		for _, width := range []int64{1000, 360} {
			b.must(chromedp.Do(b.ctx(), chromedp.EmulateViewport(width, 900)))
			wide, err := chromedp.Run(b.ctx(), chromedp.Evaluate[int64]("document.documentElement.scrollWidth"))
			if b.must(err); wide > width {
				b.t.Errorf("%s is %d wide on a screen of %d", state, wide, width)
			}
			b.axe(fmt.Sprintf("%s, %s, %d wide", state, theme, width))
			b.shoot(fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(state, " ", "-"), theme, width))
		}
	}
	b.must(chromedp.Do(b.ctx(), chromedp.EmulateViewport(1000, 900)))
	for _, said := range b.all() {
		if !strings.HasPrefix(said, "Failed to load resource") || !strings.Contains(said, "/v1alpha") && !strings.Contains(said, "/api/") && !strings.Contains(said, "/session") { // an API error that the page shows
			b.t.Errorf("%s: the browser reports %q", state, said)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requested {
		if !strings.HasPrefix(url, origin+"/") && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("%s requests %s", state, url)
		}
	}
}

// shoot writes a screenshot of the whole page to the folder SLIPWAY_TEST_ARTIFACTS, for manual
// review; it does nothing if the variable is not set.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("SLIPWAY_TEST_ARTIFACTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx(), chromedp.FullScreenshot(100))
	b.must(err)
	b.must(os.MkdirAll(dir, 0o755))
	b.must(os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

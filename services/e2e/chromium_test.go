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

// newChromium starts a browser, which ends with the test; skips where there is none.
func newChromium(t *testing.T) context.Context {
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
	browser, quit := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(quit)
	return browser
}

// tab is a page in a browser, which hears what the browser complains of and what it asks
// for.
type tab struct {
	t   *testing.T
	ctx func() context.Context // of the tab, as chromedp has it
	complaints

	mu    sync.Mutex
	asked []string
}

func openTab(t *testing.T, browser context.Context, url string) *tab {
	t.Helper()
	ctx, shut := chromedp.NewContext(browser)
	t.Cleanup(shut)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: func() context.Context { return ctx }}
	b.must(chromedp.Listen(ctx, func(event any) {
		b.hear(event)
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asked = append(b.asked, e.Request.URL)
		}
	}))
	b.must(chromedp.Do(ctx, chromedp.EmulateViewport(1000, 900), chromedp.Navigate(url)))
	return b
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v; the browser says %q", err, b.all())
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
		b.t.Fatalf("%v; the page says:\n%s\nthe browser says %q", err, b.text("document.body.innerText"), b.all())
	}
}

// text is what an expression is.
func (b *tab) text(js string) string {
	b.t.Helper()
	s, err := chromedp.Run(b.ctx(), chromedp.Evaluate[string]("String("+js+")"))
	b.must(err)
	return s
}

// press types as a person does, into what has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx(), chromedp.KeyEvent(keys)))
}

func (b *tab) eval(js string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx(), chromedp.Evaluate[chromedp.Void](js)))
}

// good checks what holds for every state of the page: nothing is refused or broken,
// nothing comes from elsewhere, it fits a telephone, and people who cannot see it, or
// not well, can use it, in the light and in the dark.
func (b *tab) good(state, origin string) {
	b.t.Helper()
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
		if !strings.HasPrefix(said, "Failed to load resource") || !strings.Contains(said, "/v1alpha") && !strings.Contains(said, "/api/") { // an answer of the API, which the page shows
			b.t.Errorf("%s: the browser says %q", state, said)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.asked {
		if !strings.HasPrefix(url, origin+"/") && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("%s asks for %s", state, url)
		}
	}
}

// shoot writes a picture of the whole page to the folder that SLIPWAY_TEST_ARTIFACTS
// names, for people to look at; nothing where it names none.
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

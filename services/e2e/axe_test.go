package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeSum is the SHA-256 of axe.min.js of axe-core 4.14.1 at npm.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// axeScript returns axe-core, which checks the accessibility of pages.
func axeScript(t *testing.T) string {
	t.Helper()
	zipped, err := os.ReadFile("testdata/axe/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	from, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("testdata/axe/axe.min.js.gz has the SHA-256 %x, which differs from the published one", sum)
	}
	return string(raw)
}

// axe fails the test for each violation that axe-core finds. The script bypasses the page's
// content security policy.
func (b *tab) axe(state string) {
	b.t.Helper()
	if b.text("typeof axe") == "undefined" {
		b.eval(axeScript(b.t))
	}
	b.eval(`window.axeFound = undefined; axe.run().then((r) => {
		window.axeFound = r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target + " " + n.failureSummary).join("; ")).join("\n");
	}, (err) => { window.axeFound = String(err); }); undefined`)
	b.await(`window.axeFound !== undefined`)
	found, err := chromedp.Run(b.ctx(), chromedp.Evaluate[string](`window.axeFound`))
	b.must(err)
	if found != "" {
		b.t.Errorf("%s: axe-core found\n%s", state, found)
	}
}

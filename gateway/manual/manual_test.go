package manual_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/gateway/manual"
)

func render(t *testing.T, documents ...manual.Document) map[string]*manual.Page {
	t.Helper()
	pages, err := manual.Render(documents)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*manual.Page{}
	for _, p := range pages {
		out[p.At] = p
	}
	return out
}

func TestLinks(t *testing.T) {
	t.Parallel()
	pages := render(t,
		manual.Document{Path: "docs/README.md", Text: "# Start\n[guide](guide/README.md)"},
		manual.Document{Path: "docs/guide/README.md", Text: "# Guide\n[up](../README.md) [call](../../gateway/contract/errors.md) [key](../../deploy/config.md#data) [here](#a) [out](https://example.org/?a&b) [code `x`](../../services/x.go)"},
		manual.Document{Path: "gateway/contract/errors.md", Text: "# X\n## A `b`\n## A `b`\n## [Link](other.txt), and C\n![plan](../../docs/develop/plan.svg)"},
		manual.Document{Path: "deploy/config.md", Text: "# Settings\n## Data\n| key | meaning |\n|---|---|\n| `data_dir` | A <b>folder</b> |\n| `plain` | no setting |\n"},
		manual.Document{Path: "docs/guide/command-line.md", Text: "# Commands\n| command | does |\n|---|---|\n| `slipway get`, `slipway revoke` | renew |\n| `slipway lock diff` | compare |"},
		manual.Document{Path: "services/x.md", Text: "# Not served"},
	)
	for at, want := range map[string][]string{
		"":                {`<a href="./guide/">guide</a>`},
		"guide/":          {`<a href="./../">up</a>`, `<a href="./../contract/errors">call</a>`, `<a href="./../operate/config#data">key</a>`, `<a href="#a">here</a>`, `<a href="https://example.org/?a&amp;b">out</a>`, "code <code>x</code></p>"},
		"contract/errors": {`<h2 id="a-b">`, `<h2 id="a-b-1">`, `<h2 id="link-and-c">Link, and C</h2>`, `src="./../develop/plan.svg"`},
		"operate/config":  {`<tr id="data_dir">`, "A <!-- raw HTML omitted -->folder"},
	} {
		for _, w := range want {
			if !strings.Contains(pages[at].HTML, w) {
				t.Errorf("%q lacks %s in\n%s", at, w, pages[at].HTML)
			}
		}
	}
	if got := pages["guide/command-line"].Terms; !maps.Equal(got, map[string]string{"slipway get": "slipway-get", "slipway revoke": "slipway-get", "slipway lock diff": "slipway-lock-diff"}) {
		t.Errorf("the commands are %v", got)
	}
	if len(pages) != 5 {
		t.Errorf("there are %d pages", len(pages))
	}
	config := pages["operate/config"]
	if !maps.Equal(config.Terms, map[string]string{"data_dir": "data_dir"}) || config.Headings[0] != (manual.Heading{Level: 2, Anchor: "data", Text: "Data"}) {
		t.Errorf("the settings are %v, the headings %v", config.Terms, config.Headings)
	}
	if want := (manual.Part{At: "operate/config#data_dir", Page: "Settings", Title: "data_dir", Text: "data_dir A folder"}); !slices.Contains(config.Parts, want) {
		t.Errorf("%v lacks %v", config.Parts, want)
	}
	if want := (manual.Part{At: "contract/errors#link-and-c", Page: "X", Title: "Link, and C", Text: "plan"}); !slices.Contains(pages["contract/errors"].Parts, want) {
		t.Errorf("%v lacks %v", pages["contract/errors"].Parts, want)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("# A\n| `a_b` |\n|---|\n| `a_b` |\n[x](../%zz) <a href='y'>")
	f.Fuzz(func(t *testing.T, text string) {
		pages := render(t, manual.Document{Path: "deploy/config.md", Text: text})
		if m := regexp.MustCompile(`(?i)<(script|iframe|img[^>]*onerror)|href="javascript:`).FindString(pages["operate/config"].HTML); m != "" {
			t.Errorf("the page has %s", m)
		}
	})
}

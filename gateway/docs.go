package gateway

import (
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"path"
	"strings"

	"slipway.dev/docs"
	"slipway.dev/gateway/manual"
)

//go:embed contract/*.md
var contract embed.FS

// docSections are the folders of the documentation with their titles, in the order of the menu.
func docSections() [][2]string {
	return [][2]string{
		{"", "Documentation"}, {"guide/", "Use it"}, {"operate/", "Operate it"}, {"integrate/", "Integrate it"}, {"contract/", "REST contract"}, {"develop/", "Develop it"},
	}
}

// newDocuments renders the documentation: that of this repository, and more pages.
func (w *webPage) newDocuments(more func() []manual.Document) error {
	var all []manual.Document
	if more != nil {
		all = more()
	}
	for root, from := range map[string]fs.FS{"docs": docs.Files, "gateway": contract} {
		err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(from, name)
			if path.Ext(name) == ".md" {
				all = append(all, manual.Document{Path: path.Join(root, name), Text: string(text)})
			} else {
				w.docs[name] = newWebFile(name, text, "no-cache")
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("reading the documentation: %w", err)
		}
	}
	pages, err := manual.Render(all)
	if err != nil {
		return err
	}
	return w.addDocuments(pages)
}

// docMenu returns the list of pages, as one of them shows it.
func docMenu(p *manual.Page, pages []*manual.Page) string {
	var b strings.Builder
	for _, section := range docSections() {
		open, items := "", ""
		for _, other := range pages {
			if dir, _ := path.Split(other.At); dir != section[0] {
				continue
			}
			current := ""
			if other == p {
				open, current = " open", ` aria-current="page"`
			}
			items += fmt.Sprintf("<li><a href=%q%s>%s</a></li>\n", p.Relative(other.At), current, html.EscapeString(other.Title))
		}
		fmt.Fprintf(&b, "<details%s><summary>%s</summary>\n<ul>%s</ul></details>\n", open, section[1], items)
	}
	return b.String()
}

// docContents returns the list of a page's headings.
func docContents(p *manual.Page) string {
	if len(p.Headings) < 2 {
		return ""
	}
	var b strings.Builder
	for _, h := range p.Headings {
		fmt.Fprintf(&b, "<li class=\"level%d\"><a href=\"#%s\">%s</a></li>\n", h.Level, html.EscapeString(h.Anchor), html.EscapeString(h.Text))
	}
	return "<nav class=\"headings\" aria-label=\"On this page\"><p>On this page</p>\n<ul>" + b.String() + "</ul></nav>"
}

// addDocuments adds the files of the pages, and of the index for searches.
func (w *webPage) addDocuments(pages []*manual.Page) error {
	layout, err := webFiles.ReadFile("web/docs.html")
	if err != nil {
		return fmt.Errorf("reading the web page: %w", err)
	}
	var parts []manual.Part
	terms := map[string]string{}
	for _, p := range pages {
		root := "./" + strings.Repeat("../", strings.Count(p.At, "/")+1)
		fill := strings.NewReplacer("@title@", html.EscapeString(p.Title), "@root@", root, "@web@", root+"web/"+w.digest,
			"@menu@", docMenu(p, pages), "@contents@", docContents(p), "@page@", p.HTML, "@foot@\n", strings.ReplaceAll(w.foot, "@root@", root))
		w.docs[p.At] = newWebFile("page.html", []byte(fill.Replace(string(layout))), "no-cache")
		parts = append(parts, p.Parts...)
		for name, anchor := range p.Terms {
			terms[name] = p.At + "#" + anchor
		}
	}
	for name, what := range map[string]any{"search.json": parts, "terms.json": terms} {
		raw, err := json.Marshal(what)
		if err != nil {
			return err
		}
		w.docs[name] = newWebFile(name, raw, "no-cache")
	}
	return nil
}

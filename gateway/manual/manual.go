// Package manual renders the documentation, which is Markdown, as pages that link to each other, with
// what a search in them needs.
package manual

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Document is a page in Markdown.
type Document struct {
	// Path is its path in the repository, to which its links are relative.
	Path string
	Text string
}

// A Page is a rendered document.
type Page struct {
	Document
	// At is its address below that of the documentation: "guide/conda", or "guide/" for the first page of
	// a folder.
	At    string
	Title string
	HTML  string
	// Headings are those of the second and third level.
	Headings []Heading
	// Terms are the anchors of the settings and commands that the page describes in rows of tables.
	Terms map[string]string
	// Parts are what a search finds.
	Parts []Part
}

// A Heading is a heading of a page.
type Heading struct {
	Level        int
	Anchor, Text string
}

// A Part is the text from one heading to the next one.
type Part struct {
	// At is its address below that of the documentation.
	At    string `json:"at"`
	Page  string `json:"page"`  // the title of the page
	Title string `json:"title"` // the heading; "" for the beginning of the page
	Text  string `json:"text"`
}

// home is the first page.
const home = "docs/README.md"

// address returns the address of a page below that of the documentation; "" for a file that is no page, and for home.
func address(at string) string {
	rest, ok := strings.CutPrefix(at, "docs/")
	if !ok {
		rest, ok = strings.CutPrefix(at, "gateway/")
	}
	if !ok {
		rest, ok = strings.CutPrefix(at, "deploy/")
		rest = "operate/" + rest
	}
	if !ok || path.Ext(at) != ".md" {
		return ""
	}
	if dir, file := path.Split(rest); file == "README.md" {
		return dir
	}
	return strings.TrimSuffix(rest, ".md")
}

// Render renders documents, sorted by their addresses.
func Render(documents []Document) ([]*Page, error) {
	var pages []*Page
	known := map[string]bool{}
	for _, d := range documents {
		if at := address(d.Path); at != "" || d.Path == home {
			pages = append(pages, &Page{Document: d, At: at})
			known[d.Path] = true
		}
	}
	slices.SortFunc(pages, func(a, b *Page) int { return strings.Compare(a.At, b.At) })
	for _, p := range pages {
		if err := p.render(known); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", p.Path, err)
		}
	}
	return pages, nil
}

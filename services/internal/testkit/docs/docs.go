// Package docs reads the Markdown documents of the repository for tests: their links, headings
// and code. Names in the code are checked by the tests of the packages that define them, e.g.
// commands by the tests of the program.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A Page is a Markdown document.
type Page struct {
	// Path is relative to the root of the repository.
	Path string
	Text string
}

// A Block is a fenced block of code.
type Block struct {
	// Language is the word after the opening fence, e.g. "sh".
	Language string
	Text     string
}

// Root returns the root of the repository, as seen from a package that is depth folders below it.
func Root(depth int) fs.FS { return os.DirFS(strings.Repeat("../", depth)) }

// Pages returns all documents of the repository.
func Pages(t testing.TB, root fs.FS) []Page {
	t.Helper()
	var out []Page
	err := fs.WalkDir(root, ".", func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "data", "gen", "node_modules", "third_party"}, e.Name()):
			return fs.SkipDir
		case e.IsDir() || path.Ext(file) != ".md":
			return nil
		}
		raw, err := fs.ReadFile(root, file)
		out = append(out, Page{file, string(raw)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 30 {
		t.Fatalf("only %d documents were found", len(out))
	}
	return out
}

// IsGenerated reports whether the page is printed by the program.
func (p Page) IsGenerated() bool {
	return p.Path == "deploy/config.md" || p.Path == "docs/operate/metrics.md"
}

var (
	fenced  = regexp.MustCompile("(?ms)^( *)```([a-z]*)\n(.*?)^ *```$")
	span    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	inline  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// Blocks returns the fenced blocks of the page.
func (p Page) Blocks() []Block {
	var out []Block
	for _, m := range fenced.FindAllStringSubmatch(p.Text, -1) {
		out = append(out, Block{m[2], m[3]})
	}
	return out
}

// Spans returns the code in the page's sentences.
func (p Page) Spans() []string {
	var out []string
	for _, m := range span.FindAllStringSubmatch(p.prose(), -1) {
		out = append(out, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return out
}

// Links returns the targets of the page's links and images.
func (p Page) Links() []string {
	var out []string
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(p.prose(), "code"), -1) {
		out = append(out, m[1])
	}
	return out
}

// Anchors returns the anchors that viewers give to the page's headings.
func (p Page) Anchors() []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(p.prose(), -1) {
		anchor := Anchor(m[1])
		for i, plain := 1, anchor; slices.Contains(out, anchor); i++ {
			anchor = fmt.Sprintf("%s-%d", plain, i)
		}
		out = append(out, anchor)
	}
	return out
}

// Section returns the part of the page below a heading of the second level, up to the next such
// heading.
func (p Page) Section(t testing.TB, title string) Page {
	t.Helper()
	_, text, ok := strings.Cut(p.Text, "\n## "+title+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", p.Path, title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return Page{p.Path, text}
}

// prose returns the page without its blocks.
func (p Page) prose() string { return fenced.ReplaceAllString(p.Text, "") }

// Anchor returns the anchor of a heading: lower case, without punctuation, with hyphens for
// spaces.
func Anchor(title string) string {
	title = strings.ReplaceAll(inline.ReplaceAllString(title, "$1"), "`", "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, title)
}

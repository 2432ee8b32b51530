package manual

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// anchors gives headings the anchors that GitHub gives them, which the links of the pages use.
type anchors map[string]bool

// Generate implements parser.IDs.
func (a anchors) Generate(title []byte, _ ast.NodeKind) []byte {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, linked.ReplaceAllString(string(title), "$1"))
	id := plain
	for i := 1; a[id]; i++ {
		id = fmt.Sprintf("%s-%d", plain, i)
	}
	a[id] = true
	return []byte(id)
}

// Put implements parser.IDs.
func (a anchors) Put(id []byte) { a[string(id)] = true }

// linked matches a link in the text of a heading.
var linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// term returns what matches the names that a page describes in the first column of its tables; nil for
// most pages.
func (p *Page) term() *regexp.Regexp {
	switch p.Path {
	case "deploy/config.md":
		return setting
	case "docs/guide/command-line.md":
		return command
	}
	return nil
}

var (
	setting = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)+$`)
	command = regexp.MustCompile(`^slipway( [a-z-]+)+$`)
)

// render renders the page. Links to other pages are relative; those to files that are not served
// are shown as text.
func (p *Page) render(known map[string]bool) error {
	source := []byte(p.Text)
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	used := anchors{}
	p.Terms = map[string]string{}
	root := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(used))))
	var lost []ast.Node
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.addHeading(n, source)
		case *extast.TableRow:
			p.addTerms(n, source, used)
		case *ast.Link:
			to, ok := p.target(string(n.Destination), known)
			if !ok {
				lost = append(lost, n)
			}
			n.Destination = []byte(to)
		case *ast.Image:
			n.Destination = []byte(p.picture(string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	for _, n := range lost {
		unwrapLink(n)
	}
	p.addParts(root, source)
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, source, root); err != nil {
		return err
	}
	p.HTML = scrollable.Replace(b.String())
	return nil
}

// scrollable lets the keyboard scroll what may be wider than the page.
//
//nolint:gochecknoglobals // an immutable value
var scrollable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`)

// unwrapLink replaces a link by its text.
func unwrapLink(n ast.Node) {
	for c := n.FirstChild(); c != nil; {
		next := c.NextSibling()
		n.Parent().InsertBefore(n.Parent(), n, c)
		c = next
	}
	n.Parent().RemoveChild(n.Parent(), n)
}

// target returns where a link of the page leads, and false if that is not served.
func (p *Page) target(link string, known map[string]bool) (string, bool) {
	u, err := url.Parse(link)
	if err != nil || u.IsAbs() || u.Path == "" {
		return link, err == nil
	}
	at := path.Join(path.Dir(p.Path), u.Path)
	if !known[at] {
		return link, false
	}
	u.Path = p.Relative(address(at))
	return u.String(), true
}

// Relative returns the address, relative to the page, of something below that of the documentation.
func (p *Page) Relative(to string) string {
	return "./" + strings.Repeat("../", strings.Count(p.At, "/")) + to
}

// picture returns the address of a picture.
func (p *Page) picture(name string) string {
	return p.Relative(strings.TrimPrefix(path.Join(path.Dir(p.Path), name), "docs/"))
}

// addHeading adds a heading to the page's title or contents.
func (p *Page) addHeading(n *ast.Heading, source []byte) {
	title := textOf(n, source)
	if n.Level == 1 {
		p.Title = title
		return
	}
	if id, ok := n.AttributeString("id"); ok && n.Level <= 3 {
		p.Headings = append(p.Headings, Heading{n.Level, string(id.([]byte)), title}) //nolint:forcetypeassert // goldmark sets no other type
	}
}

// addTerms gives the row of a table that describes settings or commands an anchor.
func (p *Page) addTerms(row *extast.TableRow, source []byte, used anchors) {
	term, cell := p.term(), row.FirstChild()
	if term == nil || cell == nil {
		return
	}
	anchor := ""
	for n := cell.FirstChild(); n != nil; n = n.NextSibling() {
		name := textOf(n, source)
		if n.Kind() != ast.KindCodeSpan || !term.MatchString(name) || p.Terms[name] != "" {
			continue
		}
		if anchor == "" {
			anchor = string(used.Generate([]byte(name), row.Kind()))
			row.SetAttributeString("id", []byte(anchor))
			p.Parts = append(p.Parts, Part{At: p.At + "#" + anchor, Page: p.Title, Title: name, Text: textOf(row, source)})
		}
		p.Terms[name] = anchor
	}
}

// addParts collects what a search finds.
func (p *Page) addParts(root ast.Node, source []byte) {
	now := Part{At: p.At, Page: p.Title}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, isHeading := n.(*ast.Heading)
		if !isHeading {
			now.Text = strings.TrimSpace(now.Text + " " + textOf(n, source))
			continue
		}
		if h.Level == 1 {
			continue
		}
		p.Parts = append(p.Parts, now)
		now = Part{At: p.At, Page: p.Title, Title: textOf(h, source)}
		if id, ok := h.AttributeString("id"); ok {
			now.At += "#" + string(id.([]byte)) //nolint:forcetypeassert // goldmark sets no other type
		}
	}
	p.Parts = append(p.Parts, now)
}

// textOf returns the text of a node without markup, on one line.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(util.UnescapePunctuations(n.Segment.Value(source)))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
				b.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(slices.Collect(strings.FieldsSeq(b.String())), " ")
}

// Package contract_test checks the citations of these pages.
package contract_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var (
	citation = regexp.MustCompile(`gateway/contract/([a-z-]+\.md)(#[a-z0-9-]+)?`)
	link     = regexp.MustCompile(`\]\(([a-z-]+\.md)?(#[a-z0-9-]+)?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// numbered matches citations by section number, which cannot be followed.
	numbered = regexp.MustCompile(`\.md,? §|[Cc]ontract,? §|\b[Rr]ules? \d`)
)

// TestCitations follows every citation in the source, and every link between pages.
func TestCitations(t *testing.T) {
	t.Parallel()
	anchors, cited := pages(t), 0
	check := func(path, page, anchor string) {
		if there, ok := anchors[page]; !ok || anchor != "" && !slices.Contains(there, anchor) {
			t.Errorf("%s cites %s%s, which does not exist", path, page, anchor)
		}
	}
	for path, text := range sources(t) {
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			check(path, m[1], m[2])
			cited++
		}
		for _, m := range numbered.FindAllString(text, -1) {
			t.Errorf("%s cites by number: %q", path, m)
		}
	}
	for page := range anchors {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			check(page, or(m[1], page), m[2])
		}
	}
	if cited < 20 {
		t.Errorf("only %d citations were found", cited)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// pages returns the anchors of each page, as Markdown viewers derive them from headings.
func pages(t *testing.T) map[string][]string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, name := range names {
		out[name] = []string{}
		for _, m := range heading.FindAllStringSubmatch(read(t, name), -1) {
			anchor := "#" + strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
			if slices.Contains(out[name], anchor) {
				t.Errorf("%s has two headings %s", name, anchor)
			}
			out[name] = append(out[name], anchor)
		}
	}
	return out
}

// sources returns the files that are not generated, by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"gen", "third_party", "bin", "data"}, d.Name()) || strings.HasPrefix(d.Name(), ".git")) {
			return fs.SkipDir
		}
		if slices.Contains([]string{".go", ".proto", ".md", ".yaml", ".yml", ".sh", ".lua", ".sql"}, filepath.Ext(path)) && d.Name() != "citations_test.go" {
			out[path] = read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(fmt.Errorf("walking the repository: %w", err))
	}
	return out
}

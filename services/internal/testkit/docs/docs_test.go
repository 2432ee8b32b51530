package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/testkit/docs"
)

var root = docs.Root(4)

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := fs.ReadFile(root, file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestLinks follows every link between files of the repository, with its anchor.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages, anchors := docs.Pages(t, root), map[string][]string{}
	for _, p := range pages {
		anchors[p.Path] = p.Anchors()
	}
	followed, reached := 0, map[string]bool{}
	for _, p := range pages {
		for _, target := range p.Links() {
			if strings.Contains(target, ":") {
				continue // on another server
			}
			followed++
			file, anchor, hasAnchor := strings.Cut(target, "#")
			if file = path.Join(path.Dir(p.Path), file); strings.HasPrefix(target, "#") {
				file = p.Path
			}
			reached[file] = reached[file] || file != p.Path
			if _, err := fs.Stat(root, file); err != nil {
				t.Errorf("%s links to %s: %v", p.Path, target, err)
			} else if hasAnchor && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s links to %s, but %s has no such heading; it has %s", p.Path, target, file, strings.Join(anchors[file], ", "))
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were found", followed)
	}
	for _, p := range pages {
		if strings.HasPrefix(p.Path, "docs/") && !reached[p.Path] {
			t.Errorf("no page links to %s", p.Path)
		}
	}
}

// TestReadme checks that the first page is short.
func TestReadme(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 120 {
		t.Errorf("README.md has %d lines; the limit is 120", lines)
	}
}

// TestTargets checks that every make target in a document exists.
func TestTargets(t *testing.T) {
	t.Parallel()
	var known []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		known = append(known, m[1])
	}
	found := 0
	for _, p := range docs.Pages(t, root) {
		commands, err := p.Commands("make")
		if err != nil {
			t.Error(err)
		}
		for _, c := range commands {
			for _, word := range c.Words[1:] {
				if found++; !strings.Contains(word, "=") && !slices.Contains(known, word) {
					t.Errorf("%s: `%s`: the Makefile has no target %s", p.Path, c, word)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d targets were found", found)
	}
}

// TestPaths checks that every file of the repository that a document names exists.
func TestPaths(t *testing.T) {
	t.Parallel()
	file, found := regexp.MustCompile(`^(?:deploy|docs|gateway|proto|services)/[\w./-]+$`), 0
	for _, p := range docs.Pages(t, root) {
		for _, s := range p.Spans() {
			if !file.MatchString(s) || p.IsGenerated() || s == "deploy/.env" { // the reader creates it
				continue
			}
			found++
			if _, err := fs.Stat(root, strings.TrimSuffix(s, "/")); err != nil {
				t.Errorf("%s: %v", p.Path, err)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d paths were found", found)
	}
}

// TestMetrics checks that every metric in a document exists.
func TestMetrics(t *testing.T) {
	t.Parallel()
	metric, known, found := regexp.MustCompile(`\bslipway_[a-z0-9_]+[a-z0-9]\b`), read(t, "docs/operate/metrics.md"), 0
	for _, p := range docs.Pages(t, root) {
		for _, name := range metric.FindAllString(strings.Join(p.Spans(), "\n"), -1) {
			found++
			if !strings.Contains(known, "`"+name+"`") {
				t.Errorf("%s: there is no metric %s", p.Path, name)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d metrics were found", found)
	}
}

// TestArchitecturePicture compares the picture with what its script prints.
func TestArchitecturePicture(t *testing.T) {
	t.Parallel()
	want, err := exec.Command("sh", "../../../../docs/develop/architecture.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../../docs/develop/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/develop/architecture.svg is not what docs/develop/architecture.sh prints: run `make reference`")
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	p := docs.Page{Path: "a.md", Text: "# A `b`, [c](d)!\n\nSee [e](f.md#g), `[no](link)` and `--h`.\n\n## A { }\n\n## A { }\n\n```sh\n# no heading\nsudo slipway x $(bin/slipway y \"$Z\" --k='l m') | xargs -n 1 slipway w…\n```\n"}
	if got, want := p.Anchors(), []string{"a-b-c", "a--", "a---1"}; !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
	if got, want := p.Links(), []string{"d", "f.md#g"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
	if got, want := p.Spans(), []string{"b", "[no](link)", "--h"}; !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
	got, err := p.Commands("slipway")
	want := []docs.Command{
		{Words: []string{"slipway", "x", "$"}, IsWhole: true}, {Words: []string{"bin/slipway", "y", "$", "--k=l m"}, IsWhole: true}, {Words: []string{"slipway", "w…", "$"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

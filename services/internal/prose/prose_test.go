package prose_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/prose"
)

// TestBudget counts phrases in every file that is not generated or copied.
func TestBudget(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../..")
	found, lines := map[string][]string{}, map[string]int{}
	err := fs.WalkDir(root, ".", func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{".git", "bin", "gen", "dist", "node_modules", "npm", "testdata", "third_party", ".cache"}, e.Name()):
			return fs.SkipDir
		// The bytes of install.sh are part of the ids of builds, so that its comments stay as well.
		case !e.Type().IsRegular(), strings.HasSuffix(file, "prose/prose.go"), file == "services/container/conda/install.sh":
			return nil
		}
		raw, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		switch path.Ext(file) {
		case ".go":
			text := prose.Read(raw)
			folder := path.Dir(file)
			lines[folder] += text.Lines
			found[folder] = append(found[folder], phrases(file, text.Comments)...)
			if !strings.HasSuffix(file, "_test.go") {
				for _, p := range phrases(file, text.Messages) {
					t.Errorf("in a message: %s", p)
				}
			}
		case ".md", ".proto", ".js", ".css", ".html", ".sh", ".py", ".yml", ".yaml", ".tpl", ".txt", ".service", "":
			for _, p := range phrases(file, code.ReplaceAllString(string(raw), "")) {
				t.Errorf("in a document: %s", p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, phrases := range found {
		if len(phrases) > (lines[folder]+499)/500 {
			t.Errorf("%s has %d phrases in %d lines of comments:\n%s", folder, len(phrases), lines[folder], strings.Join(phrases, "\n"))
		}
	}
}

// code matches code in Markdown.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// phrases returns the counted phrases of a text with their surroundings.
func phrases(file, text string) []string {
	var out []string
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "//", " ")), " ")
	for _, p := range prose.Phrases() {
		for _, at := range p.Pattern.FindAllStringIndex(text, -1) {
			out = append(out, file+": …"+text[max(0, at[0]-40):min(len(text), at[1]+40)]+"… (instead: "+p.Instead+")")
		}
	}
	return out
}

func TestRead(t *testing.T) {
	t.Parallel()
	got := prose.Read([]byte("package p\n\n// Of is asked.\n//nolint:x // why\nconst Of = \"two words\" + \"three words here\" + `or\nmore lines`\n"))
	want := prose.Text{Comments: "// Of is asked.\n", Lines: 1, Messages: "three words here\nor\nmore lines\n"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

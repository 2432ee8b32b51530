package layer

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestIgnorePatterns checks the examples of Docker's documentation and corner cases.
func TestIgnorePatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list, path string
		want       bool
	}{
		{"*/temp*", "somedir/temporary.txt", true}, {"*/temp*", "temp", false}, {"*/temp*", "a/b/temp", false},
		{"*/*/temp*", "a/b/temporary", true}, {"temp?", "tempa", true}, {"temp?", "temp", false}, {"temp?", "temp/", false},
		{"**/*.go", "a.go", true}, {"**/*.go", "a/b/c.go", true}, {"**", "a/b", true}, {"a/**", "a/b/c", true}, {"a/**", "a", false}, {"a/**/z", "a/z", true},
		{"/foo/bar/", "foo/bar/baz", true}, {"./foo", "foo", true}, {"foo", "foobar", false}, {"foo", "x/foo", false}, {"a.c", "abc", false},
		{"*.md\n!README*.md\nREADME-secret.md", "README-secret.md", true}, {"*.md\n!README*.md\nREADME-secret.md", "README-x.md", false},
		{"*.md\nREADME-secret.md\n!README*.md", "README-secret.md", false}, {"dir\n!dir/keep", "dir/keep/x", false}, {"dir\n!dir/keep", "dir/other", true},
		{"[ab]c", "bc", true}, {`\*`, "*", true}, {`\*`, "x", false}, {"é*", "éa", true}, {"#x", "#x", false}, {" # x", "# x", true}, {"\uFEFFa", "a", true}, {"!", "a", false}, {".", "a", false}, {"/", "a", false},
	} {
		list, err := parseIgnored(strings.NewReader(c.list))
		if err != nil {
			t.Errorf("%q: %v", c.list, err)
		} else if got := list.has(c.path); got != c.want {
			t.Errorf("%q leaves out %q: %t", c.list, c.path, got)
		}
	}
}

func FuzzIgnorePatterns(f *testing.F) {
	f.Add("**/*.log\n!a/[b-d]?\\", "a/b/c.log")
	f.Fuzz(func(_ *testing.T, list, path string) {
		if l, err := parseIgnored(strings.NewReader(list)); err == nil {
			l.has(filepath.Clean("x/" + path))
		}
	})
}

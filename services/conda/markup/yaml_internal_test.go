package markup

import (
	"strings"
	"testing"
	"time"
)

// TestYAMLThatCostsTime checks that files which would take seconds or minutes to parse are
// rejected before parsing.
func TestYAMLThatCostsTime(t *testing.T) {
	t.Parallel()
	keys := func(indent string) string {
		var out strings.Builder
		for i := range 20_000 {
			out.WriteString(indent + strings.Repeat("k", i%7+1) + strings.Repeat("l", i/7%20) + ": v\n")
		}
		return out.String()
	}
	var steps strings.Builder
	for i := range 100 {
		steps.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for _, tc := range []struct{ name, in, want string }{
		{"brackets", strings.Repeat("[", 1900), errDepth.Error()},
		{"brackets that comments close", strings.Repeat("[ #]\n", 20_000), errDepth.Error()},
		{"brackets that texts close", strings.Repeat("[ ']',\n", 20_000), errDepth.Error()},
		{"brackets that were closed before", strings.Repeat("]\n", 100) + strings.Repeat("[\n", 100), errDepth.Error()},
		{"braces", strings.Repeat("{'}':\n", 20_000), errDepth.Error()},
		{"steps", steps.String(), errDepth.Error()},
		{"dashes", strings.Repeat("- ", 500) + "a\n", errDepth.Error()},
		{"keys", keys(""), errKeys.Error()},
		{"keys of an item", "a:\n- b: c\n" + keys("  "), errKeys.Error()},
		{"keys in braces", "a: {\n" + strings.Repeat("k: v,\n", 30_000) + "}\n", errKeys.Error()},
		{"keys with question marks", strings.Repeat("? a\n", 30_000), errKeys.Error()},
		{"aliases", "a: &a [b]\nc: [*a, *a]\n", ErrAliases.Error()},
		{"a line", strings.Repeat("- ", 18_000), "2000 characters"},
		{"length", strings.Repeat("# comment\n", 150_000), "1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			if _, err := ParseYAML(tc.in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestYAMLThatIsFine checks that a list may be as long as a file, and its items may have
// keys.
func TestYAMLThatIsFine(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"a:\n" + strings.Repeat("- b: 1\n  c:\n  - d [e] {f}\n", 5000) + "g: h\n",
		"a: [" + strings.Repeat("b,\n  ", 2000) + "]\n",
		"a:\n  b:\n    c: {}\n  d: ']]]]'\n# ]]]]\ne: [[[]]]\n",
	} {
		if _, err := ParseYAML(in); err != nil {
			t.Errorf("%.40q: %v", in, err)
		}
	}
}

// TestScalar checks that a value is read as written, whatever YAML interprets it as.
func TestScalar(t *testing.T) {
	t.Parallel()
	f, err := ParseYAML("a: 7.10\nb: 0x10\nc: 1_0\nd: true\ne: null\nf: |\n  x\ng: '1'\nh: !!str 007\ni: .inf\nj: ~\nk: [1]\n1.10: x\n\"y\": z\n")
	if err != nil {
		t.Fatal(err)
	}
	got := Members(f.Root)
	for key, want := range map[string]string{
		"a": "7.10", "b": "0x10", "c": "1_0", "d": "true", "e": "", "f": "x\n", "g": "1", "h": "007", "i": ".inf", "j": "", "k": "", "1.10": "x", "y": "z",
	} {
		if Scalar(got[key]) != want {
			t.Errorf("%s: %q, want %q", key, Scalar(got[key]), want)
		}
	}
}

package identity

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzEmail checks that accepted e-mail addresses are bounded and printable, and that their form
// for comparisons is accepted and stable.
func FuzzEmail(f *testing.F) {
	for _, s := range []string{"kim@example.org", "Kim.New+x@EXAMPLE.org", "Kim <kim@example.org>", `"a b"@example.org`, "k\u212aim@example.org", "a@[127.0.0.1]", "@", "a@b\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if checkEmail(s) != nil {
			return
		}
		if len(s) > 200 || !strings.Contains(s, "@") || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("%q is accepted", s)
		}
		lower := lowerASCII(s)
		if err := checkEmail(lower); err != nil || lowerASCII(lower) != lower {
			t.Errorf("%q becomes %q: %v", s, lower, err)
		}
	})
}

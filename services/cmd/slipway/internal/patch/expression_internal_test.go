package patch

import (
	"strings"
	"testing"
)

// TestParseBound checks both forms of a bound, and which texts are rejected.
func TestParseBound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bound{
		"openssl<3.0.14": {"openssl", "3.0.14"}, "openssl < 1!3.0_1+local": {"openssl", "1!3.0_1+local"}, "openssl|3.0.14": {"openssl", "3.0.14"},
		"openssl": {}, "openssl<": {}, "<3": {}, "openssl<=3": {}, "openssl<3,<4": {}, "openssl>3": {}, "openssl|>=3": {}, "a b<3": {}, "openssl|": {}, "open*<3": {},
	} {
		got, err := parseBound(strings.Split(text, "|"))
		if (err != nil) != (want == bound{}) || err == nil && got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// FuzzParseBound checks that an accepted bound is one package and one version.
func FuzzParseBound(f *testing.F) {
	f.Add("openssl<3.0.14")
	f.Add("a<<b")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := parseBound([]string{text})
		if err != nil {
			return
		}
		if again, err := parseBound([]string{b.String()}); err != nil || again != b {
			t.Errorf("%q is read as %v, and then as %v, %v", text, b, again, err)
		}
	})
}

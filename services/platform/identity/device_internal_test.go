package identity

import "testing"

func FuzzUserCode(f *testing.F) {
	f.Add("BDFG-HJKL")
	f.Add(" bdfg hjkl")
	f.Fuzz(func(t *testing.T, s string) {
		if code := parseUserCode(s); code != "" && (len(code) != 8 || parseUserCode(code) != code) {
			t.Errorf("%q parses as %q", s, code)
		}
	})
}

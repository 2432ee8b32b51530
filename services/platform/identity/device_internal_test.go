package identity

import "testing"

func FuzzUserCode(f *testing.F) {
	f.Add("BDFG-HJKL")
	f.Add(" bdfg hjkl")
	f.Fuzz(func(t *testing.T, s string) {
		if code := userCode(s); code != "" && (len(code) != 8 || userCode(code) != code) {
			t.Errorf("%q is %q", s, code)
		}
	})
}

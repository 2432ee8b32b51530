package identity

import "testing"

func FuzzToken(f *testing.F) {
	f.Add(newToken(7).String())
	f.Add("eyJ0aWQiOjF9LjAw")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := parseToken(s)
		if err != nil {
			return
		}
		if again, err := parseToken(tok.String()); err != nil || !again.matches(tok.hash()) || again.id != tok.id {
			t.Errorf("%q parses as %v, which parses as %v, %v", s, tok, again, err)
		}
	})
}

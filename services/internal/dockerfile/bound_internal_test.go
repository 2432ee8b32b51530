package dockerfile

import (
	"testing"
	"unicode/utf8"

	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// values are variables as BuildKit looks them up.
type values map[string]string

func (v values) Get(name string) (string, bool) { s, ok := v[name]; return s, ok }

func (v values) Keys() []string { return nil }

// FuzzBound checks that BuildKit's expansion of a word is never longer than the computed
// bound.
func FuzzBound(f *testing.F) {
	for _, word := range []string{
		"a", "$A", "${A}", "${A:-b}", "${X:-$A$B}", `"$A"'$A'`, `\$A`, "${A//?/$B}", `${A/*/\$0\$0}`, "${A/a/${B}}", "${A%b}", "$1", "$$", "${A//'}'/\"}\"$B}", "'\\'$A",
	} {
		f.Add(word, "aaaa", "bb", true)
		f.Add(word, "", "b$A", false)
	}
	f.Fuzz(func(t *testing.T, word, a, b string, backslash bool) {
		escape := '`'
		if backslash {
			escape = '\\'
		}
		if !utf8.ValidString(word) || !utf8.ValidString(a) || !utf8.ValidString(b) || len(word) > 200 || len(a) > 100 || len(b) > 100 {
			return
		}
		for _, quotes := range []bool{true, false} {
			lex := shell.NewLex(escape)
			lex.SkipProcessQuotes = !quotes
			// BuildKit expands the text for the history with raw quotes, and e.g. labels without.
			for _, raw := range []bool{false, true} {
				lex.RawQuotes, lex.RawEscapes = raw, raw
				got, _, err := lex.ProcessWord(word, values{"A": a, "B": b, "1": a})
				if err != nil {
					continue
				}
				st := &stage{lengths: newLengths()}
				st.lengths.set("A", len(a), true)
				st.lengths.set("B", len(b), true)
				st.lengths.set("1", len(a), true)
				if bound := newGrowth(escape).bound(st, word); len(got) > bound {
					t.Errorf("%q becomes %q of %d bytes, more than %d", word, got, len(got), bound)
				}
			}
		}
	})
}

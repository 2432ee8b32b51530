package artifact

import (
	"strings"
	"testing"
	"unicode/utf8"

	"slipway.dev/services/internal/limits"
)

// TestAbout checks what is read from an info/about.json.
func TestAbout(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", limits.IndexedSummary)
	for raw, want := range map[string]About{
		`{"summary":"Reads files","home":"https://a.example/x","license":"MIT"}`:          {"Reads files", "https://a.example/x", "MIT"},
		`{"summary":" Two\n lines\u001b[2J\u0000 ","home":["https://a.example","b"]}`:     {"Two lines[2J", "https://a.example", ""},
		`{"summary":7,"home":"javascript:alert(1)","license":["MIT"]}`:                    {},
		`{"home":"https://user:secret@a.example"}`:                                        {},
		`{"home":"https://a.example/` + strings.Repeat("a", limits.IndexedSummary) + `"}`: {},
		`[]`: {}, `{`: {}, ``: {},
		`{"summary":"` + long + `"}`: {Summary: strings.Repeat("ä", (limits.IndexedSummary-3)/2) + "…"},
	} {
		if got := readAbout(strings.NewReader(raw)); got != want {
			t.Errorf("%.100s is %+v, want %+v", raw, got, want)
		}
	}
}

// FuzzAbout reads arbitrary bytes as an info/about.json. The result must be within the
// limits, and the same after a second pass, since records of other workers are checked so.
func FuzzAbout(f *testing.F) {
	for _, seed := range []string{`{"summary":"a\n b","home":"https://a.example","license":"MIT"}`, `{"home":["http://b"]}`, `{"summary":"\ud800 ` + strings.Repeat("ä ", 200) + `"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := readAbout(strings.NewReader(string(raw)))
		if a != a.Printable() {
			t.Errorf("%+v is not stable: %+v", a, a.Printable())
		}
		if len(a.Summary) > limits.IndexedSummary || len(a.Home) > limits.IndexedSummary || len(a.License) > limits.ChannelWord || !utf8.ValidString(a.Summary+a.Home+a.License) {
			t.Errorf("%+v exceeds the limits", a)
		}
	})
}

package output

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestClip checks that long texts are cut between characters.
func TestClip(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", strings.Repeat("x", 200), strings.Repeat("ü", 100)} {
		if got := Clip(text); got != text {
			t.Errorf("a text of %d bytes was cut to %q", len(text), got)
		}
	}
	for _, text := range []string{strings.Repeat("x", 201), "x" + strings.Repeat("ü", 200), "xx" + strings.Repeat("😀", 100)} {
		if got := Clip(text); !utf8.ValidString(got) || !strings.HasSuffix(got, "…") || len(got) > 200+len("…") || len(got) < 190 {
			t.Errorf("it was cut to %d bytes: %q", len(got), got)
		}
	}
}

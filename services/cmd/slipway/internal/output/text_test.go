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

func TestBytesText(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 40_000: "40.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 29_700_000: "29.7 MB", 1e16: "10000.0 TB"} {
		if got := BytesText(n); got != want {
			t.Errorf("%.0f bytes: %s, want %s", n, got, want)
		}
	}
	if got := Count(1, "image") + ", " + Count(0, "image"); got != "1 image, 0 images" {
		t.Error(got)
	}
}

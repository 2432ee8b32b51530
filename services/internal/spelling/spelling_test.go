package spelling_test

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/spelling"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 101)
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"bioconda", "bioconda", 0},
		{"", "abc", 3},
		{"biocnda", "bioconda", 1},
		{"biocondas", "bioconda", 1},
		{"kitten", "sitting", 3},
		{"flaw", "lawn", 2},
		{long, long[1:], 101},
		{long[1:], long[1:], 0},
	} {
		if got := spelling.Distance(c.a, c.b); got != c.want {
			t.Errorf("%.20q and %.20q: got %d, want %d", c.a, c.b, got, c.want)
		}
		if got := spelling.Distance(c.b, c.a); got != c.want {
			t.Errorf("%.20q and %.20q: got %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

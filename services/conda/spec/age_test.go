package spec_test

import (
	"testing"
	"time"

	"slipway.dev/services/conda/spec"
)

// TestParseAge parses ages in days, weeks and as durations.
func TestParseAge(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"7d": 7 * day, "2w": 14 * day, "36h": 36 * time.Hour, "0d": 0} {
		if got, err := spec.ParseAge(text); err != nil || got != want {
			t.Errorf("%q is %s, want %s (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"", "d", "w", "7", "-1d", "-36h", "1.5d", "99999d", "7 d", "x"} {
		if got, err := spec.ParseAge(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

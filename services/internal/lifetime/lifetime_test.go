package lifetime_test

import (
	"testing"
	"time"

	"slipway.dev/services/internal/lifetime"
)

func TestValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"90d": "90d", "2160h": "90d", "12h30m": "12h30m0s", "1s": "1s", "0": "0s", "0d": "0s",
		"-1d": "", "1ms": "", "-2h": "", "d": "", "1.5d": "", "1d12h": "", "36526d": "", "": "", "99999999999999999999d": "", "soon": "",
	} {
		var v lifetime.Value
		err := v.Set(text)
		if got := v.String(); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q is %s, %v; want %q", text, got, err, want)
		}
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var v lifetime.Value
	if got := v.From(now); !got.IsZero() {
		t.Errorf("an unlimited lifetime ends at %s", got)
	}
	if err := v.Set("2d"); err != nil || !v.From(now).Equal(time.Date(2026, 2, 2, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("2d ends at %s, %v", v.From(now), err)
	}
}

// FuzzValue verifies that String returns a text that Set parses to the same value.
func FuzzValue(f *testing.F) {
	for _, s := range []string{"90d", "12h30m", "0", "-1h", "1e9d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v, again lifetime.Value
		if v.Set(text) == nil && (again.Set(v.String()) != nil || again != v) {
			t.Errorf("%q is %s, which is read as %s", text, v.String(), again.String())
		}
	})
}

package ratelimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/ratelimit"
)

func TestLimitText(t *testing.T) {
	t.Parallel()
	type limit = ratelimit.Limit
	for _, tc := range []struct {
		name, in string
		want     limit
		text     string // as it is written again
	}{
		{"one rule", "250/1h", limit{{250, time.Hour}}, "250/1h"},
		{"several", "20/1s,72000/1h", limit{{20, time.Second}, {72000, time.Hour}}, "20/1s,72000/1h"},
		{"blanks", " 20/1s , 72000/1h ", limit{{20, time.Second}, {72000, time.Hour}}, "20/1s,72000/1h"},
		{"minutes", "1000/1m", limit{{1000, time.Minute}}, "1000/1m"},
		{"a day", "25/24h", limit{{25, 24 * time.Hour}}, "25/24h"},
		{"hours and minutes", "1/1h30m", limit{{1, 90 * time.Minute}}, "1/1h30m"},
		{"minutes and seconds", "1/10m10s", limit{{1, 610 * time.Second}}, "1/10m10s"},
		{"many seconds", "1/120s", limit{{1, 2 * time.Minute}}, "1/2m"},
		{"the shortest window", "1/60ms", limit{{1, 60 * time.Millisecond}}, "1/60ms"},
		{"none", "0", nil, "0"},
		{"empty", "", nil, "0"},
		{"blank", "  ", nil, "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := limit{{1, time.Second}} // is replaced
			if err := got.UnmarshalText([]byte(tc.in)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if text, err := got.MarshalText(); err != nil || string(text) != tc.text {
				t.Errorf("written as %s, %v; want %s", text, err, tc.text)
			}
		})
	}
}

func TestLimitTextRefused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"250", "250/", "/1h", "-1/1h", "0/1h", "1.5/1h", "x/1h", "1/x", "1/1", "1/-1h", "1/59ms", "1/0s",
		"20/1s,", ",20/1s", "20/1s;5/1h", "1/1h/1h", "99999999999999999999/1h",
	} {
		var l ratelimit.Limit
		if err := l.UnmarshalText([]byte(in)); err == nil || !strings.Contains(err.Error(), "e.g.") {
			t.Errorf("%q became %v, %v; want an error with an example", in, l, err)
		}
	}
}

func FuzzLimitText(f *testing.F) {
	for _, in := range []string{"250/1h", "20/1s,72000/1h", "0", "", "1/60ms", "1/1h0m1s", "-1/1h"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var l, again ratelimit.Limit
		if l.UnmarshalText([]byte(in)) != nil {
			return
		}
		for _, r := range l {
			if r.Count < 1 || r.Window < 60*time.Millisecond {
				t.Errorf("%q has the rule %v", in, r)
			}
		}
		text, err := l.MarshalText()
		if err == nil {
			err = again.UnmarshalText(text)
		}
		if diff := cmp.Diff(l, again); err != nil || diff != "" {
			t.Errorf("%q, written as %q: %v %s", in, text, err, diff)
		}
	})
}

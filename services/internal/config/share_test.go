package config

import "testing"

// TestShare checks the form of percentages.
func TestShare(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		value Share
		text  string
	}{
		"0": {0, "0"}, "0%": {0, "0"}, "5%": {.05, "5%"}, " 0.5 % ": {.005, "0.5%"}, "100%": {1, "100%"}, "7%": {.07, "7%"},
	} {
		var s Share
		if err := s.UnmarshalText([]byte(in)); err != nil || s != want.value {
			t.Errorf("%q is %v, %v", in, s, err)
		}
		if text, err := s.MarshalText(); err != nil || string(text) != want.text {
			t.Errorf("%q is formatted as %q, %v", in, text, err)
		}
	}
	for _, in := range []string{"", "%", "5", "0.05", "-1%", "101%", "NaN%", "Inf%", "5%%", "five%"} {
		s := Share(7)
		if err := s.UnmarshalText([]byte(in)); err == nil || s != 7 {
			t.Errorf("%q is accepted as %v", in, s)
		}
	}
}

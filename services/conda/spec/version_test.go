package spec_test

import (
	"strconv"
	"testing"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// TestVersionComparisons compares with rattler's results.
func TestVersionComparisons(t *testing.T) {
	t.Parallel()
	wrong := 0
	for _, q := range condadata.VersionComparisons(t) {
		got := compare(q[1], q[2])
		if q[0] == "M" {
			got = match(q[1], q[2])
		}
		if got == q[3] {
			continue
		}
		if wrong++; wrong < 40 {
			t.Errorf("%s %q %q: %s, want %s", q[0], q[1], q[2], got, q[3])
		}
	}
	if wrong > 0 {
		t.Errorf("%d results differ", wrong)
	}
}

// compare returns the order in the format of the test data, or E for an invalid version.
func compare(a, b string) string {
	v, err := spec.ParseVersion(a)
	w, err2 := spec.ParseVersion(b)
	if err != nil || err2 != nil {
		return "E"
	}
	if v.Compare(w) != -w.Compare(v) {
		return "not symmetric"
	}
	return strconv.Itoa(v.Compare(w))
}

func match(text, version string) string {
	s, err := spec.ParseVersionSpec(text)
	v, err2 := spec.ParseVersion(version)
	if err != nil || err2 != nil {
		return "E"
	}
	again, err := spec.ParseVersionSpec(s.String())
	if err != nil || again.String() != s.String() || again.Match(v) != s.Match(v) {
		return "not the same when written and read again: " + s.String()
	}
	if s.Match(v) {
		return "1"
	}
	return "0"
}

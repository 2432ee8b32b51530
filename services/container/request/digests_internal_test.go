package request

import (
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// TestDigestOfVariables checks that environments with different variables are different
// images, regardless of the order of variables.
func TestDigestOfVariables(t *testing.T) {
	t.Parallel()
	of := func(set map[string]string) string {
		return ContentDigest(&buildv1.Recipe{Engine: "conda", Variables: set}, Destination{Registry: "r", Repository: "x"})
	}
	seen := map[string]map[string]string{}
	for _, set := range []map[string]string{nil, {"A": "b"}, {"A": "bc"}, {"Ab": "c"}, {"A": "b", "C": "d"}} {
		if other, twice := seen[of(set)]; twice {
			t.Errorf("%v and %v have the same digest", set, other)
		}
		seen[of(set)] = set
	}
	if of(map[string]string{}) != of(nil) {
		t.Error("an empty list of variables changes the digest")
	}
}

// TestDigestOfSoci checks that an image with a SOCI index is another one.
func TestDigestOfSoci(t *testing.T) {
	t.Parallel()
	to := Destination{Registry: "r", Repository: "x"}
	plain, mounted := &buildv1.Recipe{Engine: "conda"}, &buildv1.Recipe{Engine: "conda", Mount: true}
	seen := map[string]bool{}
	for _, r := range []*buildv1.Recipe{plain, mounted, {Engine: "conda", Soci: true}, {Engine: "conda", Soci: true, Mount: true}} {
		seen[ContentDigest(r, to)] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d of 4 recipes have different digests", len(seen))
	}
}

package caller_test

import (
	"strings"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
)

func TestOrganisation(t *testing.T) {
	t.Parallel()
	for email, want := range map[string]string{
		"ada@example.org": "example.org", "Ada@Example.ORG": "example.org", `"a@b"@c.org`: "c.org",
		"": "", "ada": "", "ada@": "", "@c.org": "c.org", "a@" + strings.Repeat("x", 254): "",
	} {
		if got := caller.Organisation(&platformv1.Identity{Email: email}); got != want {
			t.Errorf("%q: got %q, want %q", email, got, want)
		}
	}
	if got := caller.Organisation(nil); got != "" {
		t.Errorf("Organisation(nil) = %q", got)
	}
}

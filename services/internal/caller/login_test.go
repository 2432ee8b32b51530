package caller_test

import (
	"testing"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/upstream"
)

// TestLoginFor checks that the most specific login is used.
func TestLoginFor(t *testing.T) {
	t.Parallel()
	logins := map[string]upstream.Login{"r.example": {Username: "host"}, "r.example/team": {Username: "team"}, "r.example/team/x": {Username: "x"}}
	for repository, want := range map[string]string{
		"r.example/team/x": "x", "r.example/team/x/y": "x", "r.example/team/z": "team", "r.example/teams": "host", "other.example/team": "",
	} {
		if got := caller.LoginFor(logins, repository); got.Username != want {
			t.Errorf("the login for %s is %q, want %q", repository, got.Username, want)
		}
	}
}

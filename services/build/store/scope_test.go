package store_test

import (
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/caller"
)

// TestScopesOfRobots checks that the robots of an organisation share its limits, and no caches.
func TestScopesOfRobots(t *testing.T) {
	t.Parallel()
	record := func(user, org int64) store.Record {
		id := &platformv1.Identity{Endpoint: "https://platform.test", UserId: user, WorkspaceId: 3, RobotOrgId: org}
		return store.Record{Owner: caller.Of(id).Client(t.Context()).String(), Request: &buildv1.SubmitBuildRequest{Identity: id}}
	}
	one, other, stranger, person := record(1, 7), record(2, 7), record(3, 8), record(4, 0)
	if one.Owner != other.Owner || one.Owner == stranger.Owner || one.Owner == person.Owner {
		t.Errorf("the owners are %q, %q, of another organisation %q, of a person %q", one.Owner, other.Owner, stranger.Owner, person.Owner)
	}
	scopes := map[string]bool{}
	for _, r := range []store.Record{one, other, stranger, person} {
		scopes[r.CacheScope()] = true
	}
	if len(scopes) != 4 {
		t.Errorf("four callers have %d scopes of caches", len(scopes))
	}
}

// TestScopesOfRestrictedTokens checks that the access tokens of one user for different
// repositories share no caches.
func TestScopesOfRestrictedTokens(t *testing.T) {
	t.Parallel()
	scopes := map[string]bool{}
	for _, repositories := range [][]string{nil, {"ghcr.io/lab/*"}, {"ghcr.io/other/*"}} {
		id := &platformv1.Identity{Endpoint: "https://platform.test", UserId: 1, Repositories: repositories}
		scopes[store.Record{Owner: "user 1", Request: &buildv1.SubmitBuildRequest{Identity: id}}.CacheScope()] = true
	}
	if len(scopes) != 3 {
		t.Errorf("three tokens have %d scopes of caches", len(scopes))
	}
}

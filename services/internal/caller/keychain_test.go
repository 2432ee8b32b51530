package caller_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit/bubble"
	"slipway.dev/services/internal/upstream"
)

var (
	adaID   = caller.ID{Endpoint: "https://p", UserID: 7}
	service = map[string]upstream.Login{
		"quay.io": {Username: "host"}, "quay.io/team": {Username: "team"}, "quay.io/team/app": {Username: "app"},
		"ghcr.io/team": {Username: "ghcr"},
	}
)

func TestServiceLogins(t *testing.T) {
	t.Parallel()
	k := caller.NewKeychain(service, &platform{})
	for _, tc := range []struct{ name, host, repository, want string }{
		{"a host", "quay.io", "other/app", "host"},
		{"a path", "quay.io", "team/tool", "team"},
		{"the longest path", "quay.io", "team/app", "app"},
		{"below the longest path", "quay.io", "team/app/x", "app"},
		{"by component", "quay.io", "team/apple", "team"},
		{"by component of a path", "quay.io", "teams/app", "host"},
		{"only a path has a login", "ghcr.io", "team/app", "ghcr"},
		{"another path", "ghcr.io", "app", ""},
		{"another host", "docker.io", "team/app", ""},
		{"another port", "quay.io:5000", "team/app", ""},
	} {
		got, err := k.Access(t.Context(), caller.ID{}, tc.host, tc.repository)
		if err != nil || got.Scope != "" || got.Login.Username != tc.want {
			t.Errorf("%s: got %q in scope %q, %v; want %q", tc.name, got.Login.Username, got.Scope, err, tc.want)
		}
	}
}

func TestUsersLogins(t *testing.T) {
	t.Parallel()
	p := &platform{}
	k := caller.NewKeychain(map[string]upstream.Login{"docker.io": {Username: "service"}}, p)
	for _, tc := range []struct{ name, host, want string }{
		{"the user's own login", "quay.io", "ada"},
		{"never the service's login", "docker.io", ""},
	} {
		got, err := k.Access(t.Context(), caller.ID{Endpoint: "https://p", UserID: 7, WorkspaceID: 3}, tc.host, "team/app")
		if err != nil || got.Scope != "3/7@https://p" || got.Login.Username != tc.want {
			t.Errorf("%s: got %q in scope %q, %v", tc.name, got.Login.Username, got.Scope, err)
		}
	}
	if id := p.lookups[0].GetIdentity(); id.GetEndpoint() != "https://p" || id.GetUserId() != 7 || id.GetWorkspaceId() != 3 {
		t.Errorf("the platform received the identity %v", id)
	}
}

// TestSharedLogins checks that users without a login of their own read with the service's, and that
// it is used for nothing else.
func TestSharedLogins(t *testing.T) {
	t.Parallel()
	own := caller.BuildRepository{Host: "ghcr.io", Repository: "own", Login: upstream.Login{Username: "builder"}}
	k := caller.NewKeychain(map[string]upstream.Login{"docker.io": {Username: "service"}, "quay.io": {Username: "other"}, "ghcr.io": {Username: "wide"}}, &platform{}).
		WithBuildRepository(own).WithSharedLogins()
	limited := adaID
	limited.Repositories = "docker.io/team"
	for _, tc := range []struct {
		name        string
		who         caller.ID
		host, where string
		want        upstream.Access
	}{
		{"a user without a login", adaID, "docker.io", "library/ubuntu", upstream.Access{Scope: adaID.String(), Login: upstream.Login{Username: "service"}, Service: true}},
		{"a user with a login", adaID, "quay.io", "team/app", upstream.Access{Scope: adaID.String(), Login: upstream.Login{Username: "ada", Password: "own"}}},
		{"the repository of builds", adaID, "ghcr.io", "own/app", upstream.Access{Scope: adaID.String()}},
		{"an anonymous caller", caller.ID{}, "docker.io", "library/ubuntu", upstream.Access{Login: upstream.Login{Username: "service"}, Service: true}},
	} {
		if got, err := k.Access(t.Context(), tc.who, tc.host, tc.where); err != nil || got != tc.want {
			t.Errorf("%s: got %+v, %v", tc.name, got, err)
		}
	}
	if got, err := k.Access(t.Context(), limited, "docker.io", "library/ubuntu"); err != nil || got.Service || got.Withheld == "" {
		t.Errorf("a token that is for other repositories gets %+v, %v", got, err)
	}
	if got, err := k.BuildAccess(t.Context(), adaID, "docker.io", "ada/images"); err != nil || (got.Login != upstream.Login{}) {
		t.Errorf("images of builds are pushed with %+v, %v", got, err)
	}
	if got, err := k.UserLogin(t.Context(), adaID, "docker.io", "library/ubuntu"); err != nil || (got != upstream.Login{}) {
		t.Errorf("the cache of a build is read with %+v, %v", got, err)
	}
	if got, err := k.PushLogin(t.Context(), adaID, "docker.io", caller.Grant{Repository: "ada/images"}); err != nil || (got != upstream.Login{}) {
		t.Errorf("a build pushes with %+v, %v", got, err)
	}
}

func TestLoginsAreCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		k := caller.NewKeychain(nil, p)
		defer k.Stop()
		ask := func(id caller.ID, host string) {
			t.Helper()
			if got, err := k.Access(t.Context(), id, host, "a"); err != nil || got.Scope != id.String() {
				t.Errorf("got %q, %v", got.Scope, err)
			}
		}
		bob := caller.ID{Endpoint: "https://p", UserID: 8}
		for _, step := range []struct {
			name string
			id   caller.ID
			host string
			wait time.Duration
			want int // lookups so far
		}{
			{"first", adaID, "quay.io", 0, 1},
			{"again", adaID, "quay.io", 0, 1},
			{"another caller", bob, "quay.io", 0, 2},
			{"another workspace", caller.ID{Endpoint: "https://p", UserID: 7, WorkspaceID: 1}, "quay.io", 0, 3},
			{"another registry, without a login", adaID, "docker.io", 0, 4},
			{"the absence of a login is cached", adaID, "docker.io", 0, 4},
			{"a little later", adaID, "quay.io", 50 * time.Second, 4},
			{"a minute after the lookup", adaID, "quay.io", 11 * time.Second, 5},
		} {
			bubble.Elapse(step.wait)
			ask(step.id, step.host)
			if len(p.lookups) != step.want {
				t.Errorf("%s: %d lookups, want %d", step.name, len(p.lookups), step.want)
			}
		}
	})
}

func TestErrorsAreNotCached(t *testing.T) {
	t.Parallel()
	p := &platform{err: fault.Denied.Newf("no")}
	k := caller.NewKeychain(nil, p)
	if _, err := k.Access(t.Context(), adaID, "quay.io", "a"); !errors.Is(err, fault.Denied) {
		t.Errorf("got %v, want fault.Denied", err)
	}
	p.err = nil
	if got, err := k.Access(t.Context(), adaID, "quay.io", "a"); err != nil || got.Login.Password != "own" {
		t.Errorf("got %v", err)
	}
}

// TestForget verifies that cached logins are removed when the rights of the user or the
// credentials of the workspace change, and that a login that was looked up before the
// change is not cached.
func TestForget(t *testing.T) {
	t.Parallel()
	p := &platform{}
	k := caller.NewKeychain(nil, p).WithBuildRepository(caller.BuildRepository{Host: "h", Repository: "r"})
	in := caller.ID{Endpoint: "https://p", UserID: 7, WorkspaceID: 3}
	bob := caller.ID{Endpoint: "https://p", UserID: 8}
	ask := func(ids ...caller.ID) (lookups int) {
		before := len(p.lookups)
		for _, id := range ids {
			if _, err := k.Access(t.Context(), id, "quay.io", "a"); err != nil {
				t.Error(err)
			}
		}
		return len(p.lookups) - before
	}
	ask(adaID, in, bob)
	for _, step := range []struct {
		change string
		want   int
	}{
		{caller.Change{UserID: 7}.String(), 2}, {caller.Change{WorkspaceID: 3}.String(), 1}, {caller.Change{UserID: 9}.String(), 0},
		{"user 0", 0}, {"", 0}, {"user x", 0}, {"workspace", 0},
	} {
		k.Forget(step.change)
		if n := ask(adaID, in, bob); n != step.want {
			t.Errorf("after %q %d lookups, want %d", step.change, n, step.want)
		}
	}
	p.during = func() { k.Forget("user 7") }
	k.Forget("user 7")
	ask(adaID)
	if p.during = nil; ask(adaID) != 1 {
		t.Error("a login from before the change was cached")
	}
}

// TestBuildLoginReadsNothingElse verifies that anonymous callers do not read other
// repositories with the login that builds are pushed with, unless these have an entry of
// their own.
func TestBuildLoginReadsNothingElse(t *testing.T) {
	t.Parallel()
	k := caller.NewKeychain(service, &platform{}).WithBuildRepository(caller.BuildRepository{Host: "quay.io", Repository: "slipway/builds"})
	for _, tc := range []struct{ name, host, repository, want string }{
		{"another repository", "quay.io", "prod/secret", ""},
		{"the builds", "quay.io", "slipway/builds/x", ""},
		{"a repository with its own entry", "quay.io", "team/tool", "team"},
		{"another registry", "ghcr.io", "team/app", "ghcr"},
	} {
		if got, err := k.Access(t.Context(), caller.ID{}, tc.host, tc.repository); err != nil || got.Login.Username != tc.want {
			t.Errorf("%s: got %q, %v; want %q", tc.name, got.Login.Username, err, tc.want)
		}
	}
	if got, err := k.BuildAccess(t.Context(), caller.ID{}, "quay.io", "slipway/builds/x"); err != nil || got.Login.Username != "host" {
		t.Errorf("builds are pushed with %q, %v", got.Login.Username, err)
	}
	for _, host := range []string{"QUAY.io", "quay.io:443", "quay.io."} {
		if got, err := k.BuildAccess(t.Context(), caller.ID{}, host, "slipway/builds/x"); err != nil || got.Login.Username != "" {
			t.Errorf("%s: pushed with %q, %v", host, got.Login.Username, err)
		}
	}
}

// TestPublish verifies that the internal host is replaced, and nothing else.
func TestPublish(t *testing.T) {
	t.Parallel()
	own := caller.BuildRepository{Host: "127.0.0.1:9092", Public: "slipway.example.org", Repository: "builds"}
	for text, want := range map[string]string{
		"127.0.0.1:9092/builds:x":                   "slipway.example.org/builds:x",
		"The registry 127.0.0.1:9092 does not know": "The registry slipway.example.org does not know",
		"quay.io/builds:x":                          "quay.io/builds:x",
	} {
		if got := own.Publish(text); got != want {
			t.Errorf("Publish(%q) = %q, want %q", text, got, want)
		}
	}
	if own.Public = ""; own.Publish("127.0.0.1:9092/builds") != "127.0.0.1:9092/builds" {
		t.Error("Publish changed the text although Public is empty")
	}
}

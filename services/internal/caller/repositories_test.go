package caller_test

import (
	"errors"
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// lab returns the identity of a user with a token of some repositories.
func lab(repositories ...string) *platformv1.Identity {
	return &platformv1.Identity{Endpoint: "https://p", UserId: 7, Repositories: repositories}
}

func TestCheckRepository(t *testing.T) {
	t.Parallel()
	who := caller.Of(lab("ghcr.io/lab/*", "docker.io/library/debian"))
	for _, image := range []string{"ghcr.io/lab/tool", "debian:12", "docker.io/debian"} {
		ref, err := oci.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		if err := who.CheckRepository("f", ref.Registry, ref.Repository); err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
	for _, image := range []string{"ghcr.io/other/tool", "ghcr.io/lab", "ubuntu", "quay.io/lab/tool"} {
		ref, err := oci.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		err = who.CheckRepository("f", ref.Registry, ref.Repository)
		e, ok := fault.As(err)
		if !ok || e.Kind != fault.Denied || e.Code != fault.TokenScope || !strings.Contains(e.Public, "ghcr.io/lab/*, docker.io/library/debian") {
			t.Errorf("%s: %v", image, err)
		}
	}
	for name, all := range map[string]caller.ID{"anonymous": {}, "a token without repositories": caller.Of(lab())} {
		if err := all.CheckRepository("f", "quay.io", "x"); err != nil || all.Restriction() != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRepositoriesSeparateCallers checks that tokens of different repositories have different
// caches and scopes, and the same limits.
func TestRepositoriesSeparateCallers(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []*platformv1.Identity{lab(), lab("ghcr.io/lab/*"), lab("ghcr.io/lab/x"), lab("ghcr.io/lab/x", "ghcr.io/lab/y")} {
		who := caller.Of(id)
		if other, ok := seen[who.String()]; ok {
			t.Errorf("%v and %s have the key %q", id, other, who)
		}
		seen[who.String()] = id.String()
		if who.User() != "7@https://p" {
			t.Errorf("%v is the user %q", id, who.User())
		}
	}
}

// TestNoLoginsForOtherRepositories checks that a token of some repositories gets none of its user's
// other logins, neither at registries nor at Conda channels, also if a full token has put them into
// the cache.
func TestNoLoginsForOtherRepositories(t *testing.T) {
	t.Parallel()
	p := &platform{}
	k := caller.NewKeychain(service, p).WithBuildRepository(caller.BuildRepository{Host: "own.example", Repository: "builds"})
	who, full := caller.Of(lab("quay.io/team/*")), caller.Of(lab())
	for _, tc := range []struct {
		host, repository string
		want             string
	}{
		{"quay.io", "team/app", "ada"}, {"quay.io", "team", ""}, {"quay.io", "other/app", ""}, {"ghcr.io", "team/app", ""}, {"conda", "conda.example/lab", ""},
	} {
		if got, err := k.Access(t.Context(), full, tc.host, tc.repository); err != nil || tc.host == "quay.io" && got.Login.Username != "ada" {
			t.Fatalf("the full token at %s/%s: %v, %v", tc.host, tc.repository, got, err)
		}
		for name, find := range map[string]func() (string, error){
			"read": func() (string, error) {
				a, err := k.Access(t.Context(), who, tc.host, tc.repository)
				if a.Scope == full.String() || (a.Login.Username == "") != (a.Withheld != "") {
					t.Errorf("%s/%s: %+v", tc.host, tc.repository, a)
				}
				return a.Login.Username, err
			},
			"own login": func() (string, error) {
				l, err := k.UserLogin(t.Context(), who, tc.host, tc.repository)
				return l.Username, err
			},
			"push": func() (string, error) {
				l, err := k.PushLogin(t.Context(), who, tc.host, caller.Grant{Repository: tc.repository})
				return l.Username, err
			},
		} {
			if got, err := find(); err != nil || got != tc.want {
				t.Errorf("%s, %s/%s: got %q, %v, want %q", name, tc.host, tc.repository, got, err, tc.want)
			}
		}
	}
}

func TestCheckPlan(t *testing.T) {
	t.Parallel()
	k := caller.NewKeychain(nil, &platform{}).WithBuildRepository(caller.BuildRepository{Host: "own.example", Repository: "builds"})
	who := caller.Of(lab("ghcr.io/lab/*"))
	plan := func(registry, repository string, included ...string) *containerv1.Plan {
		out := &containerv1.Plan{Source: &containerv1.Source{Registry: registry, Repository: repository}, Config: &containerv1.ContainerConfig{Layers: []*containerv1.Layer{{Location: "data:"}}}}
		for _, name := range included {
			host, path, _ := strings.Cut(name, "/")
			out.Config.Layers = append(out.Config.Layers, &containerv1.Layer{IncludedFrom: &containerv1.LayerOrigin{Registry: host, Repository: path}})
		}
		return out
	}
	for name, tc := range map[string]struct {
		plan   *containerv1.Plan
		denied bool
	}{
		"an allowed image":            {plan("ghcr.io", "lab/tool"), false},
		"a build":                     {plan("own.example", "builds/x"), false},
		"includes of both":            {plan("own.example", "builds", "ghcr.io/lab/a", "own.example/builds/y"), false},
		"another image":               {plan("ghcr.io", "other/tool"), true},
		"another name of the builds":  {plan("OWN.example", "builds/x"), true},
		"beside the builds":           {plan("own.example", "builds2"), true},
		"an include of another image": {plan("ghcr.io", "lab/tool", "ghcr.io/lab/a", "quay.io/x"), true},
	} {
		if err := k.CheckPlan(who, "containerImage", tc.plan); errors.Is(err, fault.Denied) != tc.denied || !tc.denied && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := k.CheckPlan(caller.Of(lab()), "containerImage", tc.plan); err != nil {
			t.Errorf("%s with a full token: %v", name, err)
		}
	}
}

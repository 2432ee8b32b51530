package container_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// calls returns all calls that take the ID of a request and give access to its image or end
// it.
func (s *site) calls() map[string]func(t *testing.T, who, id string) error {
	return map[string]func(t *testing.T, who, id string) error{
		"name": func(t *testing.T, who, id string) error {
			t.Helper()
			_, err := s.asked(t, who, id)
			return err
		},
		"sif": func(t *testing.T, who, id string) error {
			t.Helper()
			_, err := s.downloadAs(t, who, id, true)
			return err
		},
		"revoke": func(t *testing.T, who, id string) error {
			t.Helper()
			_, err := s.RevokeContainer(signed(t.Context(), who), &containerv1.RevokeContainerRequest{RequestId: id})
			return err
		},
	}
}

// describe describes a request as a user, "" for an anonymous caller.
func (s *site) describe(t *testing.T, who, id string) *containerv1.DescribeContainerResponse {
	t.Helper()
	d, err := s.DescribeContainer(signed(t.Context(), who), &containerv1.DescribeContainerRequest{RequestId: id})
	if err != nil {
		t.Fatalf("%q describes %s: %v", who, id, err)
	}
	return d
}

// sifOf requests a Singularity image as a user, and completes its build.
func (s *site) sifOf(t *testing.T, who, repository string) *containerv1.SubmitContainerResponse {
	t.Helper()
	r := as(who, sif(from(s.image)))
	host, _, _ := strings.Cut(s.secret, "/")
	r.BuildRepository = host + repository
	got := s.must(t, r)
	b := s.builds.last(t)
	s.builds.set(got.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, Digest: pushSif(t, b.GetTarget(), "sif")})
	return got
}

// TestIDsOpenNothing checks that other users cannot use the IDs of requests, which lists,
// pages and logs show, in place of tokens.
func TestIDsOpenNothing(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		frozen := as("ada", s.conda("bwa"))
		frozen.Freeze, frozen.BuildRepository = true, "q.example/mine"
		named, err := s.asked(t, "ada", s.must(t, as("ada", s.conda("jq"))).GetContainerToken())
		if err != nil {
			t.Fatal(err)
		}
		short, err := s.SubmitContainerToken(t.Context(), &containerv1.SubmitContainerTokenRequest{Request: &containerv1.ContainerRequest{ContainerImage: s.image}})
		if err != nil {
			t.Fatal(err)
		}
		for what, r := range map[string]interface {
			GetRequestId() string
			GetContainerToken() string
			GetTargetImage() string
		}{
			"an image":            s.submit(t, &containerv1.ContainerConfig{Env: []string{"PASSWORD=x"}}),
			"a user's image":      s.must(t, as("ada", &containerv1.ContainerRequest{ContainerImage: s.secret})),
			"what is built":       s.must(t, s.conda("samtools=1.20")),
			"a frozen image":      s.must(t, frozen),
			"a Singularity image": s.sifOf(t, "ada", "/team/sifs"),
			"a fresh name":        named,
			"the short response":  short,
		} {
			id := r.GetRequestId()
			if id == "" || id == r.GetContainerToken() || strings.Contains(r.GetTargetImage(), id) {
				t.Errorf("%s: the id is %q, the token %q, the name %s", what, id, r.GetContainerToken(), r.GetTargetImage())
			}
			s.rejectOtherUsers(t, what, id, r.GetTargetImage())
		}
	})
}

// rejectOtherUsers checks that every call with an ID, and every name derived from it, is rejected.
func (s *site) rejectOtherUsers(t *testing.T, what, id, name string) {
	t.Helper()
	for call, do := range s.calls() {
		for who, want := range map[string]error{"": fault.Unauthenticated, "bob": fault.Denied} {
			if err := do(t, who, id); !errors.Is(err, want) {
				t.Errorf("%s: %s by %q with the id: %v, want %v", what, call, who, err, want)
			}
		}
	}
	if plan, err := s.resolve(t, id, false); !errors.Is(err, fault.NotFound) {
		t.Errorf("%s: the id resolves to %v, %v", what, plan, err)
	}
	if parts := strings.Split(strings.TrimPrefix(name, "oras://"), "/"); parts[1] == "wt" {
		parts[2] = id
		forged := strings.Join(parts, "/")
		for field, r := range map[string]*containerv1.ContainerRequest{
			"containerImage":    {ContainerImage: forged},
			"containerIncludes": {ContainerImage: s.image, ContainerIncludes: []string{forged}},
			"containerFile":     from(forged),
		} {
			if got, err := s.ask(t, r); err == nil {
				t.Errorf("%s: %s takes the id in a name: %v", what, field, got)
			}
		}
	}
	status := s.status(t, id)
	if status.GetId() != id || status.GetStatus() == "" || strings.Contains(status.GetTargetImage(), "/wt/") {
		t.Errorf("%s: its status is %v", what, status)
	}
	for _, who := range []string{"", "bob"} {
		d := s.describe(t, who, id)
		if d.GetRequestId() != id || d.GetContainerImage() == "" || d.GetCreationTime() == nil {
			t.Errorf("%s: %q sees %v", what, who, d)
		}
		if d.ContainerConfig != nil || len(d.GetDigests())+len(d.GetContainerIncludes()) > 0 || d.UserId != nil || d.PlatformEndpoint != nil || strings.Contains(d.String(), "/wt/") {
			t.Errorf("%s: %q sees of it %v", what, who, d)
		}
	}
}

// TestOwnersUseIDs checks that the user who made a request can use its ID with an access
// token.
func TestOwnersUseIDs(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	made := s.sifOf(t, "ada", "/team/sifs")
	id := made.GetRequestId()
	page, err := s.list(t, "ada", 0, "")
	if err != nil || page.GetContainers()[0].GetRequestId() != id {
		t.Errorf("the list is %v, %v", page, err)
	}
	if d := s.describe(t, "ada", id); d.GetUserId() != 1 || d.GetPlatformEndpoint() == "" || d.TargetImage != nil {
		t.Errorf("she sees %v", d)
	}
	for _, call := range []string{"sif", "name", "revoke"} {
		if err := s.calls()[call](t, "ada", id); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, err := s.resolve(t, made.GetContainerToken(), false); !errors.Is(err, fault.NotFound) {
		t.Errorf("what she revoked resolves: %v", err)
	}
	for _, call := range []string{"sif", "name"} {
		if err := s.calls()[call](t, "ada", id); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s of what was revoked: %v", call, err)
		}
	}
}

// TestTokensAreAcceptedAsIDs checks that every call that takes an ID also accepts tokens,
// which were the IDs of requests in earlier releases.
func TestTokensAreAcceptedAsIDs(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for who, made := range map[string]*containerv1.SubmitContainerResponse{
		"":    s.submit(t, &containerv1.ContainerConfig{Env: []string{"A=b"}}),
		"ada": s.sifOf(t, "ada", "/team/sifs"),
	} {
		token := made.GetContainerToken()
		if status := s.status(t, token); status.GetTargetImage() != made.GetTargetImage() || status.GetId() != made.GetRequestId() {
			t.Errorf("the status is %v", status)
		}
		if d := s.describe(t, "", token); d.GetTargetImage() != made.GetTargetImage() || d.GetRequestId() != made.GetRequestId() || (d.ContainerConfig != nil) != (who == "") || (d.UserId != nil) != (who != "") {
			t.Errorf("it is described as %v", d)
		}
		if err := s.calls()["sif"](t, "", token); who != "" && err != nil {
			t.Errorf("sif with the token of %q: %v", who, err)
		}
		if err := s.calls()["name"](t, who, token); err != nil {
			t.Errorf("name with the token of %q: %v", who, err)
		}
		if err := s.calls()["revoke"](t, "", token); err != nil {
			t.Errorf("revoke with the token of %q: %v", who, err)
		}
		if _, err := s.resolve(t, token, true); !errors.Is(err, fault.NotFound) {
			t.Errorf("the revoked token of %q resolves: %v", who, err)
		}
	}
}

// TestIDsThatAreNone checks that strings other than IDs of the user's requests are
// rejected.
func TestIDsThatAreNone(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	id := s.must(t, as("ada", s.conda("bwa"))).GetRequestId()
	for _, none := range []string{"", strings.Repeat("0", 64), strings.ToUpper(id), id[1:], id[:26], id + "0", strings.Repeat("a", 26)} {
		for call, do := range s.calls() {
			if err := do(t, "ada", none); !errors.Is(err, fault.NotFound) {
				t.Errorf("%s of %q: %v", call, none, err)
			}
		}
	}
	nobodys := s.submit(t, nil).GetRequestId()
	for call, do := range s.calls() {
		if err := do(t, "ada", nobodys); !errors.Is(err, fault.Denied) {
			t.Errorf("%s of a request that no user made: %v", call, err)
		}
		if err := do(t, "mallory", id); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s with an unknown access token: %v", call, err)
		}
	}
	if _, err := s.DescribeContainer(signed(t.Context(), "mallory"), &containerv1.DescribeContainerRequest{RequestId: id}); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("describe with an unknown access token: %v", err)
	}
}

// TestBuildsOfPrivateFiles checks that other users who know the ID of a build with files of
// a request can see its recipe, but not use the files.
func TestBuildsOfPrivateFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	files, _ := dataLayer(t, "private source")
	copying := func(who string) *containerv1.SubmitContainerResponse {
		r := as(who, &containerv1.ContainerRequest{ContainerFile: encoded("FROM " + s.image + "\nCOPY . /\n"), BuildContext: files})
		return s.must(t, r)
	}
	made := copying("ada")
	built := made.GetBuildId()
	for who, want := range map[string]error{"": fault.Denied, "bob": fault.Denied, "ada": nil} {
		if got, err := s.asked(t, who, built); !errors.Is(err, want) {
			t.Errorf("%q gets %v, %v", who, got, err)
		}
	}
	if copying("bob").GetBuildId() != built {
		t.Fatal("who has the same files does not join the build")
	}
	if _, err := s.asked(t, "bob", built); err != nil {
		t.Errorf("who has the same files: %v", err)
	}
	open := s.must(t, as("ada", from(s.image))).GetBuildId()
	if _, err := s.asked(t, "", open); err != nil {
		t.Errorf("what any client could request: %v", err)
	}
}

// TestExpiredRequestsAreDescribed describes requests whose names have expired, by ID.
func TestExpiredRequestsAreDescribed(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	made := s.must(t, as("ada", s.conda("bwa")))
	s.sleep(37 * time.Hour)
	if d := s.describe(t, "", made.GetRequestId()); d.GetBuildId() != made.GetBuildId() {
		t.Errorf("it is described as %v", d)
	}
	if _, err := s.GetContainerStatus(t.Context(), &containerv1.GetContainerStatusRequest{RequestId: made.GetRequestId()}); !errors.Is(err, fault.NotFound) {
		t.Errorf("its status: %v", err)
	}
	if slices.Contains([]string{"", made.GetContainerToken()}, made.GetRequestId()) {
		t.Errorf("its id is %q", made.GetRequestId())
	}
}

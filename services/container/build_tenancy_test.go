package container_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestTenancy checks gateway/contract/container-service.md#scope.
func TestTenancy(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	ada := s.must(t, as("ada", from(s.secret)))
	job := s.builds.last(t)
	repository := s.secret[:strings.LastIndex(s.secret, ":")]
	if len(job.GetScope()) != 16 || job.GetTarget().GetRepository() != "store/builds/"+job.GetScope() {
		t.Errorf("the target is %v with scope %q", job.GetTarget(), job.GetScope())
	}
	if diff := cmp.Diff([]string{repository}, job.GetRepositories()); diff != "" {
		t.Errorf("repositories (-want +got):\n%s", diff)
	}
	for _, who := range []string{"bob", ""} {
		for _, image := range []string{s.secret, ada.GetContainerImage(), "127.0.0.1:9090/store/builds:x", "127.0.0.1:9090/store/builds/x:1", "Q.example/cache/x"} {
			for name, r := range map[string]*containerv1.ContainerRequest{
				"FROM": from(image), "COPY": {ContainerFile: encoded("FROM scratch\nCOPY --from=" + image + " / /\n")},
				"mount": {ContainerFile: encoded("FROM " + s.image + "\nRUN --mount=type=bind,from=" + image + ",target=/x true\n")},
				"image": {ContainerImage: image}, "base image": {Packages: &containerv1.Packages{
					Type: "CONDA", Entries: []string{"bwa"}, CondaOpts: &containerv1.CondaOptions{MambaImage: s.image, BaseImage: image},
				}},
			} {
				_, err := s.ask(t, as(who, r))
				if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), image) || !strings.Contains(err.Error(), "exist") {
					t.Errorf("%q, %s of %s: %v", who, name, image, err)
				}
			}
		}
	}
	other := as("ada", from(s.secret))
	other.PlatformWorkspaceId = proto.Int64(7)
	s.must(t, other)
	if again := s.builds.last(t); again.GetScope() == job.GetScope() || again.GetContentId() == job.GetContentId() {
		t.Error("another workspace has the same scope")
	}
}

func TestPublicImagesAreSharedByAllCallers(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	ids := map[string]bool{}
	for _, who := range []string{"", "ada", "bob"} {
		s.must(t, as(who, from(s.image)))
		job := s.builds.last(t)
		ids[job.GetContentDigest()] = true
		if job.GetScope() != "" || len(job.GetRepositories()) != 0 || (job.GetIdentity() != nil) != (who != "") {
			t.Errorf("%q: %v", who, job)
		}
	}
	if len(ids) != 1 {
		t.Errorf("%d contents, want one", len(ids))
	}
}

func TestOwnRepository(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	config := &containerv1.ContainerConfig{Env: []string{"A=b"}}
	request := func(who string, freeze bool) *containerv1.ContainerRequest {
		r := as(who, s.conda("bwa"))
		r.BuildRepository, r.CacheRepository, r.Freeze, r.ContainerConfig = "q.example/team/mine", "q.example/team/cache", freeze, config
		return r
	}
	served := s.must(t, request("ada", false))
	job := s.builds.last(t)
	if job.GetTarget().GetRepository() != "team/mine" || len(job.GetScope()) != 16 || job.GetRecipe().GetConfig() != nil || job.GetTarget().GetCacheRepository() != "q.example/team/cache" {
		t.Errorf("the build request is %v", job)
	}
	if want := "slipway.example.org/wt/" + served.GetContainerToken() + "/team/mine:bwa--" + job.GetContentId(); served.GetTargetImage() != want {
		t.Errorf("served as %s, want %s", served.GetTargetImage(), want)
	}
	if plan, err := s.resolve(t, served.GetContainerToken(), false); err != nil || len(plan.GetConfig().GetEnv()) != 1 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	if s.must(t, request("bob", false)); s.builds.last(t).GetContentId() == job.GetContentId() {
		t.Error("another identity would join")
	}

	frozen := s.must(t, request("ada", true))
	cold := s.builds.last(t)
	if frozen.ContainerToken != nil || frozen.Expiration != nil || !frozen.GetFreeze() || frozen.GetRequestId() == "" ||
		frozen.GetTargetImage() != "q.example/team/mine:bwa--"+cold.GetContentId() {
		t.Errorf("frozen: %v", frozen)
	}
	if cold.GetContentId() == job.GetContentId() || len(cold.GetRecipe().GetConfig().GetEnv()) != 1 {
		t.Errorf("the configuration is not baked in: %v", cold)
	}
	if d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: frozen.GetRequestId()}); err != nil || !d.GetFreeze() || d.GetTargetImage() != frozen.GetTargetImage() {
		t.Errorf("it is described as %v, %v", d, err)
	}
}

func TestRepositoriesOfTheService(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for repo, field := range map[string]string{
		"127.0.0.1:9090/store/builds": "buildRepository", "127.0.0.1:9090/store/builds/x": "buildRepository",
		"q.example/cache": "cacheRepository", "Q.EXAMPLE/cache/y": "cacheRepository",
	} {
		r := s.conda("bwa")
		r.BuildRepository, r.CacheRepository = "q.example/mine", "q.example/mine"
		if field == "buildRepository" {
			r.BuildRepository = repo
		} else {
			r.CacheRepository = repo
		}
		if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s as %s: %v", repo, field, err)
		}
	}
	for _, repo := range []string{"127.0.0.1:9090/store/buildsx", "127.0.0.1:9090/store", "q.example/cached"} {
		r := s.conda("bwa")
		r.BuildRepository = repo
		s.must(t, r)
	}
	r := s.conda("builds")
	r.BuildRepository, r.NameStrategy = "127.0.0.1:9090/store", "imageSuffix"
	if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "belong to this service") {
		t.Errorf("a name that leads into ours: %v", err)
	}
}

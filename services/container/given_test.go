package container_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestIssuedImageNames adds to images by issued names.
func TestIssuedImageNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	layer, _ := dataLayer(t, "one")
	first := s.submit(t, &containerv1.ContainerConfig{Env: []string{"A=1", "B=1"}, Entrypoint: []string{"sh"}, Layers: []*containerv1.Layer{layer}})
	s.sleep(time.Hour)
	second := s.must(t, &containerv1.ContainerRequest{
		ContainerImage: first.GetTargetImage(), ContainerConfig: &containerv1.ContainerConfig{Env: []string{"B=2"}, Cmd: []string{"-c"}},
		WorkflowId: "run1",
	})
	if !second.GetExpiration().AsTime().Equal(first.GetExpiration().AsTime()) || strings.Contains(second.GetContainerImage(), first.GetContainerToken()) {
		t.Errorf("got %v", second)
	}
	plan, err := s.resolve(t, second.GetContainerToken(), true)
	c := plan.GetConfig()
	if err != nil || !slices.Equal(c.GetEnv(), []string{"A=1", "B=2"}) || !slices.Equal(c.GetEntrypoint(), []string{"sh"}) ||
		!slices.Equal(c.GetCmd(), []string{"-c"}) || len(c.GetLayers()) != 1 || plan.GetSource().GetRepository() != "lib/tool" {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: second.GetContainerToken()})
	if err != nil || strings.Contains(d.String(), first.GetContainerToken()) || d.WorkflowId != nil {
		t.Errorf("the description shows the other token, or a run: %v, %v", d, err)
	}

	built := s.must(t, as("ada", from(s.secret)))
	onTop := &containerv1.ContainerRequest{ContainerImage: built.GetTargetImage(), ContainerConfig: &containerv1.ContainerConfig{Env: []string{"C=3"}}}
	if got := s.must(t, onTop); got.GetBuildId() != built.GetBuildId() || got.Succeeded != nil {
		t.Errorf("while it is built: %v", got)
	}
	s.builds.set(built.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
	if got := s.must(t, onTop); !got.GetSucceeded() {
		t.Errorf("when it is built: %v", got)
	}
	s.builds.set(built.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED})

	never := strings.Replace(first.GetTargetImage(), first.GetContainerToken(), strings.Repeat("a", 26), 1)
	for name, c := range map[string]struct {
		ask  *containerv1.ContainerRequest
		want error
	}{
		"a failed build": {onTop, fault.NotFound},
		"never issued":   {&containerv1.ContainerRequest{ContainerImage: never}, fault.NotFound},
		"another tag":    {&containerv1.ContainerRequest{ContainerImage: first.GetTargetImage() + "x"}, fault.NotFound},
		"another path":   {&containerv1.ContainerRequest{ContainerImage: strings.Replace(first.GetTargetImage(), "lib/tool", "lib/other", 1)}, fault.NotFound},
		"FROM additions": {from(first.GetTargetImage()), fault.Invalid},
	} {
		if got, err := s.ask(t, c.ask); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	s.sleep(36 * time.Hour)
	if _, err := s.ask(t, &containerv1.ContainerRequest{ContainerImage: second.GetTargetImage()}); !errors.Is(err, fault.NotFound) {
		t.Errorf("expired: %v", err)
	}
}

// TestBuildsFromIssuedNames checks that builds read the images of issued names,
// and that recipes contain no tokens.
func TestBuildsFromIssuedNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	plain := s.submit(t, nil)
	given := plain.GetTargetImage()
	want := s.must(t, from(s.image)).GetBuildId()
	if got := s.must(t, from(given)).GetBuildId(); got != want {
		t.Errorf("the build is %s, of the image itself %s", got, want)
	}
	multi := "ARG BASE=" + given + "\nFROM ${BASE} AS a\nFROM " + s.image + "\nCOPY --from=" + given + " /a /b\n"
	s.must(t, &containerv1.ContainerRequest{ContainerFile: encoded(multi)})
	if got, want := s.builds.last(t).GetRecipe().GetContainerFile(), strings.ReplaceAll(multi, given, s.image); got != want {
		t.Errorf("the recipe is %s, want %s", got, want)
	}
	packages := s.conda("samtools")
	packages.Packages.CondaOpts.BaseImage, packages.Packages.CondaOpts.MambaImage = given, given
	s.must(t, packages)
	if got := s.builds.last(t).GetRecipe().GetContainerFile(); strings.Contains(got, plain.GetContainerToken()) || !strings.Contains(got, "FROM "+s.image) {
		t.Errorf("the recipe is %s", got)
	}

	added := s.submit(t, &containerv1.ContainerConfig{Env: []string{"A=1"}})
	if _, err := s.ask(t, from(added.GetTargetImage())); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Freeze it") {
		t.Errorf("from an image with additions: %v", err)
	}
	hers := s.must(t, as("ada", &containerv1.ContainerRequest{ContainerImage: s.secret})).GetTargetImage()
	s.must(t, as("ada", from(hers)))
	if _, err := s.ask(t, as("bob", from(hers))); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "may not be read") {
		t.Errorf("from another user's image: %v", err)
	}
	for name, file := range map[string]string{"another tag": "FROM " + given + "x\n", "put together": "ARG T=" + plain.GetContainerToken() + "\nFROM " + strings.Replace(given, plain.GetContainerToken(), "${T}", 1) + "\n"} {
		if _, err := s.ask(t, &containerv1.ContainerRequest{ContainerFile: encoded(file)}); !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.sleep(37 * time.Hour)
	if _, err := s.ask(t, from(given)); !errors.Is(err, fault.NotFound) {
		t.Errorf("expired: %v", err)
	}
}

// TestFreezingIssuedNames checks that frozen copies of issued names include their
// additions, for callers who may read both.
func TestFreezingIssuedNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	frozen := func(image string) *containerv1.ContainerRequest {
		return &containerv1.ContainerRequest{ContainerImage: image, Freeze: true, BuildRepository: "r.example/x", ContainerConfig: &containerv1.ContainerConfig{Env: []string{"B=2"}}}
	}
	layer, _ := dataLayer(t, "one")
	added := s.submit(t, &containerv1.ContainerConfig{Env: []string{"A=1"}, Layers: []*containerv1.Layer{layer}})
	resp := s.must(t, frozen(added.GetTargetImage()))
	got := s.builds.last(t).GetRecipe()
	if got.GetEngine() != "freeze" || got.GetSource().GetRepository() != "lib/tool" || !strings.HasPrefix(got.GetSource().GetReference(), "sha256:") ||
		!slices.Equal(got.GetConfig().GetEnv(), []string{"A=1", "B=2"}) || len(got.GetConfig().GetLayers()) != 1 || got.GetPlatform() != "linux/amd64" {
		t.Errorf("the recipe is %v", got)
	}
	d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: resp.GetRequestId()})
	if err != nil || strings.Contains(d.String(), added.GetContainerToken()) || strings.Contains(resp.String(), added.GetContainerToken()) {
		t.Errorf("the other token is shown: %v, %v, %v", d, resp, err)
	}

	hers := s.must(t, as("ada", &containerv1.ContainerRequest{ContainerImage: s.secret})).GetTargetImage()
	s.must(t, as("ada", frozen(hers)))
	if _, err := s.ask(t, as("bob", frozen(hers))); !errors.Is(err, fault.Invalid) {
		t.Errorf("from another user's image: %v", err)
	}

	own := from(s.image)
	own.BuildRepository = s.private.Host + "/team/out"
	built := s.must(t, as("ada", own))
	to := s.builds.last(t).GetTarget()
	if _, err := s.ask(t, as("ada", frozen(built.GetTargetImage()))); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), built.GetBuildId()) {
		t.Errorf("while it is built: %v", err)
	}
	s.private.Push(t, to.GetRepository()+":"+to.GetTag(), testkit.Image(t, "amd64", true))
	s.builds.set(built.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
	s.must(t, as("ada", frozen(built.GetTargetImage())))
	if src := s.builds.last(t).GetRecipe().GetSource(); src.GetRepository() != to.GetRepository() || !strings.HasPrefix(src.GetReference(), "sha256:") {
		t.Errorf("a built image is copied from %v", src)
	}
	if _, err := s.ask(t, as("bob", frozen(built.GetTargetImage()))); !errors.Is(err, fault.Invalid) {
		t.Errorf("from another user's build: %v", err)
	}
	s.must(t, as("ada", from(built.GetTargetImage())))
	if req := s.builds.last(t); !strings.HasPrefix(req.GetRecipe().GetContainerFile(), "FROM "+s.private.Host+"/"+to.GetRepository()+"@sha256:") ||
		len(req.GetGivenImages()) != 0 || !slices.Contains(req.GetRepositories(), s.private.Host+"/"+to.GetRepository()) {
		t.Errorf("a build from it is read with Ada's own login: %v", req)
	}
}

// made builds an image as a user and pushes it to the build's target.
func (s *site) made(t *testing.T, store *testkit.Registry, r *containerv1.ContainerRequest) (name string, source *containerv1.Source) {
	t.Helper()
	resp := s.must(t, r)
	to := s.builds.last(t).GetTarget()
	img := testkit.Image(t, "amd64", true)
	store.Push(t, to.GetRepository()+":"+to.GetTag(), img)
	s.builds.set(resp.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetTargetImage(), &containerv1.Source{Registry: to.GetRegistry(), Repository: to.GetRepository(), Reference: d.String()}
}

// TestBuildsFromBuiltNames checks that builds read built images by digest, that the same
// callers may have both, and that no other image of the service's repository is read.
func TestBuildsFromBuiltNames(t *testing.T) {
	t.Parallel()
	store := testkit.NewRegistry(t, testkit.Open)
	s := newSiteWith(t, testkit.SQLite(t), func(d *container.Deps) {
		d.Builds = container.Builds{Registry: store.Host, Repository: "store/builds"}
	}, store.Host)
	name, source := s.made(t, store, from(s.image))
	written := store.Host + "/" + source.GetRepository() + "@" + source.GetReference()
	s.must(t, &containerv1.ContainerRequest{ContainerFile: encoded("FROM " + s.image + "\nCOPY --from=" + name + " /a /b\n")})
	req := s.builds.last(t)
	if got, want := req.GetRecipe().GetContainerFile(), "FROM "+s.image+"\nCOPY --from="+written+" /a /b\n"; got != want {
		t.Errorf("the recipe is %s, want %s", got, want)
	}
	if given := req.GetGivenImages(); req.GetScope() != "" || len(given) != 1 || !proto.Equal(given[0], source) {
		t.Errorf("from a shared build: %v", req)
	}

	packages := s.conda("samtools")
	packages.Packages.CondaOpts.BaseImage = name
	s.must(t, packages)
	if req := s.builds.last(t); !strings.Contains(req.GetRecipe().GetContainerFile(), "FROM "+written) || len(req.GetGivenImages()) != 1 {
		t.Errorf("packages on it: %v", req)
	}

	hers, secret := s.made(t, store, as("ada", from(s.secret)))
	s.must(t, as("ada", from(hers)))
	if req := s.builds.last(t); req.GetScope() == "" || len(req.GetGivenImages()) != 1 || !proto.Equal(req.GetGivenImages()[0], secret) {
		t.Errorf("from Ada's private build: %v", req)
	}

	baked := from(s.image)
	baked.ContainerConfig = &containerv1.ContainerConfig{Env: []string{"A=1"}}
	added, _ := s.made(t, store, baked)
	pending := s.must(t, from(s.image+"\n# slow")).GetTargetImage()
	revoked := s.must(t, from(s.image))
	if _, err := s.RevokeContainer(t.Context(), &containerv1.RevokeContainerRequest{RequestId: revoked.GetContainerToken()}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what, who, file string
		want            error
	}{
		{"another user's name", "bob", "FROM " + hers, fault.Invalid},
		{"a user's name, anonymously", "", "FROM " + hers, fault.Invalid},
		{"its digest, without the name", "", "FROM " + written, fault.Invalid},
		{"another digest beside the name", "", "FROM " + name + "\nCOPY --from=" + store.Host + "/" + secret.GetRepository() + "@" + secret.GetReference() + " / /", fault.Invalid},
		{"a tag beside the name", "", "FROM " + name + "\nCOPY --from=" + store.Host + "/" + source.GetRepository() + ":latest / /", fault.Invalid},
		{"additions", "", "FROM " + added, fault.Invalid},
		{"what is being built", "", "FROM " + pending, fault.Conflict},
		{"revoked", "", "FROM " + revoked.GetTargetImage(), fault.NotFound},
	} {
		before := s.builds.count()
		ask := &containerv1.ContainerRequest{ContainerFile: encoded(tc.file + "\n"), PlatformAccessToken: tc.who}
		if _, err := s.ask(t, ask); !errors.Is(err, tc.want) || s.builds.count() != before {
			t.Errorf("%s: %v, want %v", tc.what, err, tc.want)
		}
	}
	s.sleep(37 * time.Hour)
	if _, err := s.ask(t, from(name)); !errors.Is(err, fault.NotFound) {
		t.Errorf("expired: %v", err)
	}
}

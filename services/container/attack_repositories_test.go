package container_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	recipes "slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// outside reports whether a call was rejected because its token is not for a repository.
func outside(err error) bool {
	e, ok := fault.As(err)
	return ok && e.Kind == fault.Denied && e.Code == fault.TokenScope && strings.Contains(e.Public, "the access token is not for ")
}

// A labSite is a site whose user Ada has a token of some repositories: those below team at her private
// registry.
type labSite struct {
	*site
	// store is the registry of the service's own builds.
	store *testkit.Registry
	// token is the token of some repositories. lab is an image that it is for; public and other are
	// images that it is not for, of which other is private.
	token, lab, public, other string
	// digest is that of lab.
	digest string
}

func newLabSite(t *testing.T) labSite {
	t.Helper()
	store := testkit.NewRegistry(t, testkit.Open)
	s := labSite{store: store}
	s.site = newSiteWith(t, testkit.SQLite(t), func(d *container.Deps) {
		d.Builds = container.Builds{Registry: store.Host, Repository: "store/builds"}
		d.Keychain = d.Keychain.WithBuildRepository(caller.BuildRepository{Host: store.Host, Repository: "store/builds"})
		d.CondaDefaults = recipes.Defaults{Base: store.Host + "/default/base:1", Mamba: store.Host + "/default/mamba:1"}
	}, store.Host)
	for _, name := range []string{"default/base:1", "default/mamba:1"} {
		store.Push(t, name, testkit.Image(t, "amd64", true))
	}
	s.token = "ada " + s.private.Host + "/team/*"
	img := testkit.Image(t, "amd64", true)
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.lab, s.public, s.digest = s.private.Push(t, "team/tool:1", img), s.image, d.String()
	s.other = s.private.Push(t, "other/base:1", testkit.Image(t, "amd64", true))
	return s
}

// by returns a request with the token of some repositories.
func (s labSite) by(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	return as(s.token, r)
}

func image(name string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{ContainerImage: name}
}

func file(text string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{ContainerFile: encoded(text)}
}

// TestTokenOfRepositories requests images with a token of some repositories, in every field that takes
// the name of an image or a repository.
func TestTokenOfRepositories(t *testing.T) {
	t.Parallel()
	s := newLabSite(t)
	withoutTag := func(name string) string { return name[:strings.LastIndexByte(name, ':')] }
	frozen := func(name, to string) *containerv1.ContainerRequest {
		return &containerv1.ContainerRequest{ContainerImage: name, Freeze: true, BuildRepository: to}
	}
	mirrored := func(name, to string) *containerv1.ContainerRequest {
		return &containerv1.ContainerRequest{ContainerImage: name, Mirror: true, BuildRepository: to}
	}
	with := func(r *containerv1.ContainerRequest, change func(*containerv1.ContainerRequest)) *containerv1.ContainerRequest {
		change(r)
		return r
	}
	packages := func(base, mamba string, commands ...string) *containerv1.ContainerRequest {
		return &containerv1.ContainerRequest{Packages: &containerv1.Packages{
			Type: "CONDA", Entries: []string{"samtools"}, CondaOpts: &containerv1.CondaOptions{BaseImage: base, MambaImage: mamba, Commands: commands},
		}}
	}
	upper := strings.ToUpper(s.private.Host)
	for name, tc := range map[string]struct {
		ask   *containerv1.ContainerRequest
		field string // that is rejected; "" for none
	}{
		"an image":                       {image(s.lab), ""},
		"by digest":                      {image(withoutTag(s.lab) + "@" + s.digest), ""},
		"with tag and digest":            {image(s.lab + "@" + s.digest), ""},
		"FROM":                           {from(s.lab), ""},
		"FROM scratch":                   {file("FROM scratch\nCOPY --from=" + s.lab + " / /\n"), ""},
		"packages on the default image":  {packages("", ""), ""},
		"packages on an image":           {packages(s.lab, ""), ""},
		"a copy":                         {frozen(s.lab, s.private.Host+"/team/out"), ""},
		"an include":                     {with(image(s.lab), func(r *containerv1.ContainerRequest) { r.ContainerIncludes = []string{s.lab} }), ""},
		"another image":                  {image(s.public), "containerImage"},
		"another private image":          {image(s.other), "containerImage"},
		"an image of Docker Hub":         {image("debian"), "containerImage"},
		"the parent of the path":         {image(s.private.Host + "/team:1"), "containerImage"},
		"a path with the same beginning": {image(s.private.Host + "/teams/x:1"), "containerImage"},
		"by another digest":              {image(withoutTag(s.public) + "@" + s.digest), "containerImage"},
		"FROM another":                   {from(s.public), "containerFile"},
		"FROM another private one":       {from(s.other), "containerFile"},
		"FROM an argument":               {file("ARG B=" + s.public + "\nFROM ${B}\n"), "containerFile"},
		"COPY --from":                    {file("FROM " + s.lab + "\nCOPY --from=" + s.public + " / /\n"), "containerFile"},
		"RUN --mount":                    {file("FROM " + s.lab + "\nRUN --mount=from=" + s.public + ",target=/x true\n"), "containerFile"},
		"an unused stage":                {file("FROM " + s.public + " AS a\nFROM " + s.lab + "\n"), "containerFile"},
		"ONBUILD":                        {file("FROM " + s.lab + "\nONBUILD COPY --from=" + s.public + " / /\n"), "containerFile"},
		"a definition file":              {with(file("Bootstrap: docker\nFrom: "+s.public+"\n"), func(r *containerv1.ContainerRequest) { r.Format = "sif" }), "containerFile"},
		"packages on another image":      {packages(s.public, ""), "packages.condaOpts"},
		"packages by another installer":  {packages("", s.public), "packages.condaOpts"},
		"packages with commands":         {packages("", "", "COPY --from="+s.public+" / /"), "packages.condaOpts"},
		"an include of another":          {with(image(s.lab), func(r *containerv1.ContainerRequest) { r.ContainerIncludes = []string{s.lab, s.public} }), "containerIncludes[1]"},
		"a copy of another":              {frozen(s.public, s.private.Host+"/team/out"), "containerImage"},
		"a copy elsewhere":               {frozen(s.lab, s.private.Host+"/other/out"), "buildRepository"},
		"a copy to another registry":     {frozen(s.lab, "quay.io/team/out"), "buildRepository"},
		"a mirror":                       {mirrored(s.lab, s.private.Host+"/team/mirror"), ""},
		"a mirror of another":            {mirrored(s.public, s.private.Host+"/team/mirror"), "containerImage"},
		"a mirror elsewhere":             {mirrored(s.lab, s.private.Host+"/other"), "buildRepository"},
		"a build elsewhere":              {with(from(s.lab), func(r *containerv1.ContainerRequest) { r.BuildRepository = s.private.Host + "/other/out" }), "buildRepository"},
		"a cache elsewhere":              {with(from(s.lab), func(r *containerv1.ContainerRequest) { r.CacheRepository = s.private.Host + "/other/cache" }), "cacheRepository"},
		"the host in upper case":         {image(upper + "/other/base:1"), "containerImage"},
		"another port":                   {image(s.private.Host + "0/team/base:1"), "containerImage"},
	} {
		_, err := s.ask(t, s.by(tc.ask))
		switch {
		case tc.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.field != "" && (!outside(err) || !strings.HasPrefix(err.Error(), tc.field+": ")):
			t.Errorf("%s: %v, want a rejection of %s", name, err, tc.field)
		}
	}
	for _, name := range []string{s.private.Host + "/team/../other/base:1", s.private.Host + "/team/%2e%2e/other/base:1", s.private.Host + "//other/base:1", s.private.Host + "/team/*:1"} {
		if _, err := s.ask(t, s.by(image(name))); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTargetOfAName checks that nameStrategy cannot move an image out of the repositories of a token.
func TestTargetOfAName(t *testing.T) {
	t.Parallel()
	s := newLabSite(t)
	ask := s.conda("samtools")
	ask.Packages.CondaOpts = nil
	ask.BuildRepository, ask.NameStrategy = s.private.Host+"/team/out", "imageSuffix"
	s.must(t, as("ada "+s.private.Host+"/team/*", ask))
	if to := s.builds.last(t).GetTarget().GetRepository(); to == "team/out" {
		t.Fatalf("the strategy does not add to the name: %s", to)
	}
	before := s.builds.count()
	if _, err := s.ask(t, as("ada "+s.private.Host+"/team/out", ask)); !outside(err) || s.builds.count() != before {
		t.Errorf("below the only repository: %v", err)
	}
}

// TestIssuedNamesOfRepositories uses names that another token of the same user was given.
func TestIssuedNamesOfRepositories(t *testing.T) {
	t.Parallel()
	s := newLabSite(t)
	full := func(r *containerv1.ContainerRequest) string { return s.must(t, as("ada", r)).GetTargetImage() }
	including := image(s.lab)
	including.ContainerIncludes = []string{s.public}
	shared, _ := s.made(t, s.store, from(s.public))
	private, _ := s.made(t, s.store, as("ada", from(s.other)))
	for name, tc := range map[string]struct {
		ask *containerv1.ContainerRequest
		ok  bool
	}{
		"a name of an image":          {image(full(image(s.lab))), true},
		"FROM it":                     {from(full(image(s.lab))), true},
		"a name of a shared build":    {image(shared), true},
		"FROM a shared build":         {from(shared), true},
		"a name of another image":     {image(full(image(s.public))), false},
		"FROM another image":          {from(full(image(s.public))), false},
		"another private image":       {image(full(image(s.other))), false},
		"a name that includes others": {image(full(including)), false},
	} {
		if _, err := s.ask(t, s.by(tc.ask)); tc.ok && err != nil || !tc.ok && !outside(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.ask(t, s.by(from(private))); err == nil {
		t.Error("FROM a private build of another image was accepted")
	}
	with := image(s.lab)
	with.ContainerIncludes = []string{full(image(s.public))}
	if _, err := s.ask(t, s.by(with)); !outside(err) {
		t.Errorf("including a name of another image: %v", err)
	}
}

// TestRequestsOfOtherTokens checks that a token of some repositories neither sees nor names what the
// user has requested with other tokens, and that its own requests stay restricted.
func TestRequestsOfOtherTokens(t *testing.T) {
	t.Parallel()
	s := newLabSite(t)
	secret := s.must(t, as("ada", image(s.other)))
	_, built := s.made(t, s.store, as("ada", from(s.other)))
	build := s.builds.last(t).GetContentId() + "_1"
	own := s.must(t, s.by(image(s.lab)))
	elsewhere := s.must(t, as("ada "+s.lab[:strings.LastIndexByte(s.lab, ':')], image(s.lab)))

	restricted, full := signed(t.Context(), s.token), signed(t.Context(), "ada")
	ids := func(ctx context.Context) (out []string) {
		list, err := s.ListContainers(ctx, &containerv1.ListContainersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list.GetContainers() {
			out = append(out, c.GetRequestId())
		}
		return out
	}
	if got := ids(restricted); !slices.Equal(got, []string{own.GetRequestId()}) {
		t.Errorf("the token lists %v, want only %s", got, own.GetRequestId())
	}
	if got := ids(full); len(got) != 4 {
		t.Errorf("the user lists %v", got)
	}
	for name, id := range map[string]string{"a request": secret.GetRequestId(), "a request of other repositories": elsewhere.GetRequestId(), "a build": build} {
		if got, err := s.NameContainer(restricted, &containerv1.NameContainerRequest{Id: id}); !errors.Is(err, fault.Denied) {
			t.Errorf("a name of %s of another token: %v, %v", name, got, err)
		}
	}
	if _, err := s.RevokeContainer(restricted, &containerv1.RevokeContainerRequest{RequestId: secret.GetRequestId()}); !errors.Is(err, fault.Denied) {
		t.Errorf("revoking a request of another token: %v", err)
	}
	if d, err := s.DescribeContainer(restricted, &containerv1.DescribeContainerRequest{RequestId: secret.GetRequestId()}); err != nil || d.UserId != nil {
		t.Errorf("a request of another token is described as %v, %v", d, err)
	}
	// The name itself proves access to the image of a request, but not for this token.
	if got, err := s.NameContainer(restricted, &containerv1.NameContainerRequest{Id: secret.GetContainerToken()}); !errors.Is(err, fault.Denied) {
		t.Errorf("a fresh name by the name: %v, %v", got, err)
	}
	for name, ctx := range map[string]context.Context{"the token": restricted, "a full token": full} {
		again, err := s.NameContainer(ctx, &containerv1.NameContainerRequest{Id: own.GetRequestId()})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := s.resolve(t, again.GetContainerToken(), true)
		if err != nil || !slices.Equal(plan.GetIdentity().GetRepositories(), []string{s.private.Host + "/team/*"}) {
			t.Errorf("a fresh name by %s is of %v, %v", name, plan.GetIdentity(), err)
		}
	}
	s.must(t, s.by(from(s.lab)))
	if req := s.builds.last(t); len(req.GetIdentity().GetRepositories()) != 1 || req.GetScope() == "" {
		t.Errorf("a build is submitted as %v in the scope %q", req.GetIdentity(), req.GetScope())
	}
	if built.GetRepository() == s.builds.last(t).GetTarget().GetRepository() {
		t.Error("private builds of both tokens have the same repository")
	}
	if _, err := s.RevokeBuild(restricted, &containerv1.RevokeBuildRequest{BuildId: build}); !errors.Is(err, fault.NotFound) {
		t.Errorf("revoking the names of a build of another token: %v", err)
	}
	s.builds.set(build, &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
}

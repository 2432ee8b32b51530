package container_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// including returns a request for an image with other images included.
func including(image string, includes ...string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{ContainerImage: image, ContainerIncludes: includes}
}

// layersOf returns the digests of an image's compressed layers.
func layersOf(t *testing.T, img v1.Image) []string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(layers))
	for i, l := range layers {
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = d.String()
	}
	return out
}

// digestsOf returns the digests of a configuration's layers.
func digestsOf(c *containerv1.ContainerConfig) []string {
	var out []string
	for _, l := range c.GetLayers() {
		out = append(out, l.GetGzipDigest())
	}
	return out
}

// TestIncludes checks that the sources of included layers and the login to read them are
// stored with a name, above the request's own layers.
func TestIncludes(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	tool, other := testkit.Image(t, "amd64", false), testkit.Index(t, true, "arm64", "amd64")
	public := s.up.Push(t, "lib/tool2:v1", tool)
	private := s.private.Push(t, "team/other:v1", other)
	own, _ := dataLayer(t, "one")
	ask := as("ada", including(s.image, public, private))
	ask.ContainerConfig = &containerv1.ContainerConfig{Layers: []*containerv1.Layer{own}}
	resp := s.must(t, ask)
	plan, err := s.resolve(t, resp.GetContainerToken(), true)
	if err != nil {
		t.Fatal(err)
	}
	x, err := other.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	amd64, err := other.Image(x.Manifests[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat([]string{own.GetGzipDigest()}, layersOf(t, tool), layersOf(t, amd64))
	if got := digestsOf(plan.GetConfig()); !slices.Equal(got, want) {
		t.Errorf("the layers are %v, want %v", got, want)
	}
	for i, l := range plan.GetConfig().GetLayers()[1:] {
		from, repository := l.GetIncludedFrom(), []string{"lib/tool2", "lib/tool2", "team/other", "team/other"}[i]
		if from.GetRepository() != repository || from.GetIdentity().GetUserId() != 1 || from.GetArchitecture() != "" || !strings.HasPrefix(from.GetReference(), "sha256:") ||
			from.GetMediaType() != "application/vnd.oci.image.layer.v1.tar+gzip" {
			t.Errorf("layer %d is from %v", i, from)
		}
	}
	d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: resp.GetContainerToken()})
	if err != nil || len(d.GetContainerConfig().GetLayers()) != 1 || len(d.GetContainerIncludes()) != 2 ||
		!strings.HasPrefix(d.GetContainerIncludes()[0], s.up.Host+"/lib/tool2@sha256:") || strings.Contains(d.String(), "included_from") {
		t.Errorf("it is described as %v, %v", d, err)
	}
	for _, name := range []string{resp.GetContainerToken(), s.must(t, as("ada", including(s.image, private))).GetContainerToken()} {
		if _, err := s.NameContainer(t.Context(), &containerv1.NameContainerRequest{Id: name}); !errors.Is(err, fault.Denied) {
			t.Errorf("a new name for an anonymous caller: %v", err)
		}
	}
}

// TestFreshNamesOfIncludes checks that new names require access to the included images.
func TestFreshNamesOfIncludes(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	kept := s.must(t, including(s.image, s.up.Push(t, "lib/kept:v1", testkit.Image(t, "amd64", true))))
	lost := s.must(t, including(s.image, s.up.Push(t, "lib/lost:v1", testkit.Image(t, "amd64", true))))
	s.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/lib/lost/") {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	fresh, err := s.NameContainer(t.Context(), &containerv1.NameContainerRequest{Id: kept.GetContainerToken()})
	if err != nil {
		t.Fatal(err)
	}
	plan, err1 := s.resolve(t, fresh.GetContainerToken(), true)
	d, err2 := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: fresh.GetContainerToken()})
	if err1 != nil || err2 != nil || len(plan.GetConfig().GetLayers()) != 2 || len(d.GetContainerIncludes()) != 1 {
		t.Errorf("the plan is %v, %v; it is described as %v, %v", plan, err1, d, err2)
	}
	if got, err := s.NameContainer(t.Context(), &containerv1.NameContainerRequest{Id: lost.GetContainerToken()}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "containerIncludes: "+s.up.Host+"/lib/lost@sha256:") {
		t.Errorf("a deleted image gets a new name: %v, %v", got, err)
	}
}

// TestIncludesThatAreRefused checks that errors name the position in the list.
func TestIncludesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	arm := s.up.Push(t, "lib/arm:v1", testkit.Image(t, "arm64", true))
	index := s.up.Push(t, "lib/index:v1", testkit.Index(t, true, "arm64", "ppc64le"))
	ok := s.up.Push(t, "lib/ok:v1", testkit.Image(t, "amd64", true))
	given := s.submit(t, nil).GetTargetImage()
	building := s.must(t, from(s.image)).GetTargetImage()
	for name, c := range map[string]struct {
		ask  *containerv1.ContainerRequest
		kind error
		says string
	}{
		"malformed":          {including(s.image, ok, "Not An Image"), fault.Invalid, "containerIncludes[1]: "},
		"too many":           {including(s.image, slices.Repeat([]string{ok}, 11)...), fault.Invalid, "containerIncludes has 11 entries; the maximum is 10"},
		"a missing image":    {including(s.image, s.up.Host+"/lib/nothing:v1"), fault.Invalid, "containerIncludes[0]: " + s.up.Host + "/lib/nothing:v1 does not exist"},
		"another platform":   {including(s.image, ok, arm), fault.Invalid, "containerIncludes[1]: " + arm + " cannot be included: The image is not available for linux/amd64; it has linux/arm64"},
		"other platforms":    {including(s.image, index), fault.Invalid, "it has linux/arm64, linux/ppc64le"},
		"no rights":          {as("bob", including(s.image, s.secret)), fault.Invalid, "may not be read with the credentials of this request"},
		"anonymous":          {including(s.image, s.secret), fault.Invalid, "may not be read with the credentials of this request"},
		"withheld":           {as("eve", including(s.image, s.secret)), fault.Invalid, "your role view"},
		"the service's own":  {including(s.image, "127.0.0.1:9090/store/builds/x:1"), fault.Invalid, "does not exist"},
		"never issued":       {including(s.image, "slipway.example.org/wt/"+strings.Repeat("a", 26)+"/lib/tool:v1"), fault.NotFound, "containerIncludes[0]: "},
		"another tag":        {including(s.image, given+"x"), fault.NotFound, "containerIncludes[0]: "},
		"still being built":  {including(s.image, building), fault.Conflict, "has not made"},
		"too many layers":    {including(s.image, s.manyLayers(t, 65), s.manyLayers(t, 65)), fault.Invalid, "have 130 layers together; the maximum is 128"},
		"outside the egress": {including(s.image, "10.9.8.7:5000/lib/x:1"), nil, "10.9.8.7"},
	} {
		_, err := s.ask(t, c.ask)
		if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.kind, c.says)
		}
	}
}

// manyLayers pushes an image of n layers.
func (s *site) manyLayers(t *testing.T, n int) string {
	t.Helper()
	img, err := random.Image(10, int64(n))
	if err != nil {
		t.Fatal(err)
	}
	return s.up.Push(t, fmt.Sprintf("lib/many:%d", n), img)
}

// TestIncludesOfIssuedNames checks that issued names are read with their token
// and additions, and that including them does not extend their life.
func TestIncludesOfIssuedNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	layer, _ := dataLayer(t, "one")
	hers := s.must(t, as("ada", &containerv1.ContainerRequest{ContainerImage: s.secret, ContainerConfig: &containerv1.ContainerConfig{
		Layers: []*containerv1.Layer{layer}, Env: []string{"A=1"},
	}}))
	s.sleep(time.Hour)
	his := as("bob", including(s.image, hers.GetTargetImage()))
	his.WorkflowId = "run1"
	resp := s.must(t, his)
	if !resp.GetExpiration().AsTime().Equal(hers.GetExpiration().AsTime()) {
		t.Errorf("it works until %v, the name that it includes until %v", resp.GetExpiration(), hers.GetExpiration())
	}
	plan, err := s.resolve(t, resp.GetContainerToken(), true)
	layers := plan.GetConfig().GetLayers()
	if err != nil || len(layers) != 3 || len(plan.GetConfig().GetEnv()) > 0 || layers[0].GetIncludedFrom().GetIdentity().GetUserId() != 1 ||
		layers[2].GetGzipDigest() != layer.GetGzipDigest() || plan.GetIdentity().GetUserId() != 2 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: resp.GetContainerToken()})
	if err != nil || strings.Contains(d.String(), hers.GetContainerToken()) || d.WorkflowId != nil {
		t.Errorf("the description shows the other token, or a run: %v, %v", d, err)
	}

	frozen := as("bob", including(s.image, hers.GetTargetImage()))
	frozen.Freeze, frozen.BuildRepository = true, "r.example/x"
	if _, err := s.ask(t, frozen); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "may not be read") {
		t.Errorf("what outlives the name, without the right to read the image: %v", err)
	}
	s.must(t, as("ada", frozen))
	if c := s.builds.last(t).GetRecipe().GetConfig(); len(c.GetLayers()) != 3 {
		t.Errorf("the recipe adds %v", c)
	}
	again := as("bob", &containerv1.ContainerRequest{ContainerImage: resp.GetTargetImage(), Freeze: true, BuildRepository: "r.example/x"})
	if _, err := s.ask(t, again); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "may not be read") {
		t.Errorf("the same by way of a second name: %v", err)
	}
	s.sleep(36 * time.Hour)
	if _, err := s.ask(t, including(s.image, hers.GetTargetImage())); !errors.Is(err, fault.NotFound) {
		t.Errorf("expired: %v", err)
	}
}

// TestIncludesOfBuilds checks that includes are added to a build when it is served, and
// only change a frozen build.
func TestIncludesOfBuilds(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	more := s.up.Push(t, "lib/more:v1", testkit.Index(t, true, "amd64", "arm64"))
	plain := s.must(t, from(s.image))
	with := from(s.image)
	with.ContainerIncludes = []string{more}
	resp := s.must(t, with)
	if resp.GetBuildId() != plain.GetBuildId() {
		t.Errorf("the build is %s, without includes %s", resp.GetBuildId(), plain.GetBuildId())
	}
	if plan, err := s.resolve(t, resp.GetContainerToken(), true); err != nil || len(plan.GetConfig().GetLayers()) != 2 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	two := proto.CloneOf(with)
	two.ContainerPlatform = "linux/amd64,linux/arm64"
	plan, err := s.resolve(t, s.must(t, two).GetContainerToken(), true)
	if err != nil || len(plan.GetConfig().GetLayers()) != 4 || plan.GetConfig().GetLayers()[0].GetIncludedFrom().GetArchitecture() != "amd64" ||
		plan.GetConfig().GetLayers()[3].GetIncludedFrom().GetArchitecture() != "arm64" {
		t.Errorf("for two platforms the plan is %v, %v", plan, err)
	}
	other := s.up.Push(t, "lib/other:v1", testkit.Index(t, true, "amd64"))
	for _, r := range []*containerv1.ContainerRequest{with, {ContainerImage: s.image}} {
		ids := map[string]bool{}
		for _, includes := range [][]string{nil, {more}, {other}, {more, other}, {other, more}, {more}} {
			frozen := proto.CloneOf(r)
			frozen.Freeze, frozen.BuildRepository, frozen.ContainerIncludes = true, "r.example/x", includes
			ids[s.must(t, frozen).GetBuildId()] = true
			if c := s.builds.last(t).GetRecipe().GetConfig(); len(c.GetLayers()) != 2*len(includes) {
				t.Errorf("frozen with %v it adds %v", includes, c)
			}
		}
		if len(ids) != 5 {
			t.Errorf("five contents and one again have the ids %v", ids)
		}
	}
}

// TestOriginCannotBeClaimed checks that requests cannot set the origin of a layer.
func TestOriginCannotBeClaimed(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	layer, _ := dataLayer(t, "one")
	layer.IncludedFrom = &containerv1.LayerOrigin{Registry: s.private.Host, Repository: "team/base", BuildId: "x_1"}
	resp := s.submit(t, &containerv1.ContainerConfig{Layers: []*containerv1.Layer{layer}})
	plan, err := s.resolve(t, resp.GetContainerToken(), true)
	if err != nil || len(plan.GetConfig().GetLayers()) != 1 || plan.GetConfig().GetLayers()[0].GetIncludedFrom() != nil {
		t.Errorf("the plan is %v, %v", plan, err)
	}
}

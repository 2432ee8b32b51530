package container_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

// sif returns a request for a Singularity image that is not frozen.
func sif(r *containerv1.ContainerRequest, env ...string) *containerv1.ContainerRequest {
	r.Format = "sif"
	if len(env) > 0 {
		r.ContainerConfig = &containerv1.ContainerConfig{Env: env}
	}
	return r
}

// TestSifIsServedByToken checks that without freeze a Singularity image is stored in the
// service's repository, has a name with a token, and contains its request's additions.
func TestSifIsServedByToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	got := s.must(t, sif(from(s.image)))
	b := s.builds.last(t)
	if r := b.GetRecipe(); r.GetEngine() != "sif" || b.GetTarget().GetRepository() != "store/builds" || b.GetScope() != "" || len(b.GetParts()) != 1 {
		t.Errorf("the build request is %v", b)
	}
	want := "oras://slipway.example.org/wt/" + got.GetContainerToken() + "/store/builds:" + b.GetContentId()
	if got.GetTargetImage() != want || got.GetFreeze() || got.GetExpiration() == nil {
		t.Errorf("it is answered as %v, want %s", got, want)
	}
	plan, err := s.resolve(t, got.GetContainerToken(), false)
	if err != nil || plan.GetFormat() != "sif" || plan.GetConfig() != nil || plan.GetFrozen() {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	if status := s.status(t, got.GetContainerToken()); status.GetTargetImage() != want {
		t.Errorf("its status is %v", status)
	}
	image := s.must(t, sif(&containerv1.ContainerRequest{ContainerImage: s.image}))
	if of := s.builds.last(t); of.GetRecipe().GetEngine() != "sif" || of.GetRecipe().GetSource() == nil || of.GetScope() != "" || image.GetBuildId() == "" {
		t.Errorf("the build request for the image is %v", of)
	}
	given := strings.TrimPrefix(got.GetTargetImage(), "oras://")
	if _, err := s.ask(t, &containerv1.ContainerRequest{ContainerImage: given}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "is a Singularity image") {
		t.Errorf("its own name as an image: %v", err)
	}
}

// TestSifContainsAddedLayers checks that a Singularity image with additions is for its caller
// only, while its source image is shared.
func TestSifContainsAddedLayers(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	s.must(t, from(s.image))
	plain := s.builds.last(t)
	seen := map[string]string{}
	for who, env := range map[string]string{"ada": "A=1", "bob": "A=1", "ada again": "A=2", "": "A=1"} {
		token, _, _ := strings.Cut(who, " ")
		s.must(t, as(token, sif(from(s.image), env)))
		b := s.builds.last(t)
		if env0 := b.GetRecipe().GetConfig().GetEnv(); len(env0) != 1 || env0[0] != env || b.GetScope() == "" ||
			b.GetTarget().GetRepository() != "store/builds/"+b.GetScope() || b.GetParts()[0].GetContentDigest() != plain.GetContentDigest() {
			t.Errorf("%s: the build request is %v", who, b)
		}
		if other, ok := seen[b.GetContentDigest()]; ok {
			t.Errorf("%q and %q have the same", who, other)
		}
		seen[b.GetContentDigest()] = who
	}
	s.must(t, as("ada", sif(&containerv1.ContainerRequest{ContainerImage: s.image}, "A=1")))
	if b := s.builds.last(t); b.GetScope() == "" || len(b.GetRecipe().GetConfig().GetEnv()) != 1 {
		t.Errorf("of an image: %v", b)
	}
	s.must(t, as("ada", sif(&containerv1.ContainerRequest{ContainerImage: s.secret})))
	if b := s.builds.last(t); b.GetScope() == "" || b.GetTarget().GetRepository() != "store/builds/"+b.GetScope() {
		t.Errorf("of a private image: %v", b)
	}
}

// TestSifReuseByCaller checks that the additions of an anonymous request are not available
// after its name expires, nor to callers who only know the build.
func TestSifReuseByCaller(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	plain := s.must(t, sif(from(s.image)))
	nobodys := s.must(t, sif(from(s.image), "PASSWORD=x"))
	hers := s.must(t, as("ada", sif(from(s.image), "PASSWORD=x")))
	for _, id := range []string{plain.GetContainerToken(), plain.GetBuildId(), nobodys.GetContainerToken()} {
		if got, err := s.asked(t, "", id); err != nil || !strings.HasPrefix(got.GetTargetImage(), "oras://slipway.example.org/wt/") {
			t.Errorf("a fresh name is %v, %v", got, err)
		}
	}
	if got, err := s.asked(t, "ada", hers.GetBuildId()); err != nil || !strings.HasPrefix(got.GetTargetImage(), "oras://slipway.example.org/wt/") {
		t.Errorf("hers is %v, %v", got, err)
	}
	for who, id := range map[string]string{"": nobodys.GetBuildId(), "bob": hers.GetBuildId()} {
		if _, err := s.asked(t, who, id); !errors.Is(err, fault.Denied) {
			t.Errorf("%q asks for %s: %v", who, id, err)
		}
	}
	s.sleep(37 * time.Hour)
	if _, err := s.asked(t, "", nobodys.GetContainerToken()); !errors.Is(err, fault.NotFound) {
		t.Errorf("when it has ended: %v", err)
	}
	if _, err := s.asked(t, "", plain.GetContainerToken()); err != nil {
		t.Errorf("what holds no secret, when its name has ended: %v", err)
	}
}

// download reads the first message of a Singularity image.
func (s *site) download(t *testing.T, id string, begins bool) (*containerv1.StreamSifResponse, error) {
	t.Helper()
	return s.downloadAs(t, "", id, begins)
}

// downloadAs is download as a user.
func (s *site) downloadAs(t *testing.T, who, id string, begins bool) (*containerv1.StreamSifResponse, error) {
	t.Helper()
	stream, err := s.StreamSif(signed(t.Context(), who), &containerv1.StreamSifRequest{RequestId: id, Begins: begins})
	if err != nil {
		t.Fatal(err)
	}
	return stream.Recv()
}

// TestNoSifToDownload checks the errors if there is no Singularity image.
func TestNoSifToDownload(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	image, running := s.must(t, from(s.image)), s.must(t, sif(from(s.image)))
	if _, err := s.download(t, image.GetContainerToken(), true); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "no Singularity image") {
		t.Errorf("of an image: %v", err)
	}
	if _, err := s.download(t, running.GetContainerToken(), true); !errors.Is(err, fault.Unavailable) {
		t.Errorf("while it is made: %v", err)
	}
	s.builds.set(running.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED, Reason: "build", Message: "no such file"})
	if _, err := s.download(t, running.GetContainerToken(), true); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("when it has failed: %v", err)
	}
}

// pushSif pushes a Singularity image as a build would, and returns its digest.
func pushSif(t *testing.T, to *buildv1.Target, content string) string {
	t.Helper()
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer([]byte(content), "application/vnd.sylabs.sif.layer.v1.sif"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(to.GetRegistry()+"/"+to.GetRepository()+":"+to.GetTag(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password})); err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// TestDownloadCountsAsPull checks that callers who reached their pull limit cannot start a
// download, but can continue one.
func TestDownloadCountsAsPull(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, testkit.SQLite(t), func(d *container.Deps) {
		d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
		d.Limiter.SetLimits(ratelimit.Limits{ratelimit.Pulls: {User: ratelimit.Limit{{Count: 1, Window: time.Hour}}}})
	})
	host, _, _ := strings.Cut(s.secret, "/")
	r := as("ada", sif(from(s.image)))
	r.BuildRepository = host + "/team/sifs"
	got := s.must(t, r)
	b := s.builds.last(t)
	s.builds.set(got.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, Digest: pushSif(t, b.GetTarget(), "sif")})
	for i, begins := range []bool{false, true, false, true} {
		m, err := s.download(t, got.GetContainerToken(), begins)
		if last := i == 3; last != errors.Is(err, fault.Exhausted) || !last && (err != nil || m.GetSize() != 3 || m.GetFileName() != "sifs-"+b.GetTarget().GetTag()+".sif") {
			t.Errorf("download %d is answered as %v, %v", i, m, err)
		}
	}
}

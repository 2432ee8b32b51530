package buildkit

import (
	"strings"
	"testing"

	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/pb"
	spb "github.com/moby/buildkit/sourcepolicy/pb"
	"github.com/moby/buildkit/sourcepolicy/policysession"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// TestOwnImagesAreForbidden checks that a build can read no image of the service except its
// own source.
func TestOwnImagesAreForbidden(t *testing.T) {
	t.Parallel()
	own, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	s := newSources(nil, nil, jobs.Job{
		Forbidden: []string{"store.example:5000/builds"},
		Recipe:    &buildv1.Recipe{Source: &containerv1.Source{Registry: "store.example:5000", Repository: "builds/ada", Reference: own}},
	})
	ref, err := oci.ParseReference("store.example:5000/builds/ada@" + own)
	if err != nil || !s.isOwnSource(ref) {
		t.Errorf("it cannot go on from its own image: %v", err)
	}
	for _, name := range []string{
		"builds/ada@" + other, "builds/ada:latest", "builds/bob@" + own, "builds@" + own,
	} {
		if why := s.refusal(t.Context(), "docker-image://store.example:5000/"+name); !strings.Contains(why, "it belongs to the build service") {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// TestRequestedImages checks that a build can read those images of the service whose digests
// were issued to its request, with their login, and that a base image's ONBUILD cannot read
// others.
func TestRequestedImages(t *testing.T) {
	t.Parallel()
	issued, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	l := jobs.NewLogins(rightsService{logins: map[string]string{"read own.test:5000/builds/ada": "grant"}}, "")
	s := newSources(&tokens{}, l, jobs.Job{
		Forbidden: []string{"own.test:5000/builds"},
		Allowed:   []*containerv1.Source{{Registry: "own.test:5000", Repository: "builds/ada", Reference: issued}},
	})
	for _, name := range []string{
		"builds/ada@" + other, "builds/ada:latest", "builds/ada", "builds/bob@" + issued, "builds@" + issued, "builds/ada/x@" + issued, "builds/ada:v1",
	} {
		if why := s.refusal(t.Context(), "docker-image://own.test:5000/"+name); !strings.Contains(why, "it belongs to the build service") {
			t.Errorf("%s: %q", name, why)
		}
	}
	repo := upstream.Repository{Host: "own.test:5000", Name: "builds/ada"}
	if _, ok := s.of(repo); ok {
		t.Error("what was refused can be read")
	}
	if why := s.refusal(t.Context(), "docker-image://own.test:5000/builds/ada@"+issued); why != "" {
		t.Errorf("what was given cannot be read: %s", why)
	}
	if login, ok := s.of(repo); !ok || login.Username != "grant" {
		t.Errorf("it is read with %q", login.Username)
	}
	if why := s.refusal(t.Context(), "docker-image://own.test:5000/builds/ada@"+other); why == "" {
		t.Error("with one image that was given another can be read")
	}
}

// TestBaseImages checks that an image is used by the digest whose configuration was
// checked, and rejected if its triggers would make the Dockerfile too long.
func TestBaseImages(t *testing.T) {
	t.Parallel()
	l := jobs.NewLogins(rightsService{}, "")
	digest := "sha256:" + strings.Repeat("a", 64)
	fresh := func() *sources {
		return newSources(&tokens{}, l, jobs.Job{Recipe: &buildv1.Recipe{ContainerFile: "FROM up.test/base:1\nRUN true\n"}})
	}
	request := func(name, config string) *policysession.CheckPolicyRequest {
		r := &policysession.CheckPolicyRequest{
			Platform: &pb.Platform{OS: "linux", Architecture: "amd64"},
			Source:   &gateway.ResolveSourceMetaResponse{Source: &pb.SourceOp{Identifier: "docker-image://" + name, Attrs: map[string]string{"a": "b"}}},
		}
		if config != "" {
			r.Source.Image = &gateway.ResolveSourceImageResponse{Digest: digest, Config: []byte(config)}
		}
		return r
	}
	s := fresh()
	decision, ask, err := s.decide(t.Context(), request("up.test/base:1", ""))
	if decision != nil || err != nil || ask.GetSource().GetIdentifier() != "docker-image://up.test/base:1" || ask.GetImage() == nil {
		t.Fatalf("without a configuration it is %v, %v, %v", decision, ask, err)
	}
	decision, _, err = s.decide(t.Context(), request("up.test/base:1", `{"config":{"Env":["PATH=/bin"],"OnBuild":["RUN true"]}}`))
	if err != nil || decision.GetAction() != spb.PolicyAction_CONVERT || decision.GetUpdate().GetIdentifier() != "docker-image://up.test/base:1@"+digest || decision.GetUpdate().GetAttrs()["a"] != "b" {
		t.Fatalf("it is %v, %v", decision, err)
	}
	decision, ask, err = s.decide(t.Context(), request("up.test/base:1@"+digest, ""))
	if err != nil || ask != nil || decision.GetAction() != spb.PolicyAction_ALLOW {
		t.Errorf("the image that was checked is %v, %v, %v", decision, ask, err)
	}
	other := request("up.test/base:1@"+digest, "")
	other.Platform.Architecture = "arm64"
	if _, ask, _ := s.decide(t.Context(), other); ask == nil {
		t.Error("the image for another platform is not checked")
	}
	for name, config := range map[string]string{
		"triggers":      `{"config":{"OnBuild":["ENV A=` + strings.Repeat("x", 1000) + `","ENV A=` + strings.Repeat("$A", 100) + `"]}}`,
		"configuration": `[`,
	} {
		s := fresh()
		decision, _, err := s.decide(t.Context(), request("up.test/base:1", config))
		if err != nil || decision.GetAction() != spb.PolicyAction_DENY || !strings.HasPrefix(s.refused(), "up.test/base:1 cannot be used: ") {
			t.Errorf("%s: it is %v, %v: %s", name, decision, err, s.refused())
		}
	}
	s = fresh() // several images, each within the limit
	long := `{"config":{"Env":["A=` + strings.Repeat("x", 1500<<10) + `"]}}`
	denied := 0
	for _, digit := range []string{"a", "a", "b", "c", "d"} {
		r := request("up.test/base:1", long)
		r.Source.Image.Digest = "sha256:" + strings.Repeat(digit, 64)
		if decision, _, _ := s.decide(t.Context(), r); decision.GetAction() == spb.PolicyAction_DENY {
			denied++
		}
	}
	if denied != 2 { // each is in two instructions and in the stage
		t.Errorf("%d of 5 images are denied", denied)
	}
}

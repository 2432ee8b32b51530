package buildkit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/buildkit/sourcepolicy/policysession"
	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/testing/protocmp"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/limits"
)

// TestInputs checks which images are reported as read, and that only those are named that can be read
// without a login.
func TestInputs(t *testing.T) {
	t.Parallel()
	sum := func(of string) string { return digest.FromString(of).String() }
	registries := &tokens{}
	l := jobs.NewLogins(rightsService{logins: map[string]string{
		"read hub.test/prod/secret": "ada", "read hub.test/prod/open": "ada", "read own.test:5000/builds/ada": "grant", "push own.test:5000/builds/me": "grant",
	}}, "")
	s := newSources(registries, l, jobs.Job{
		Forbidden: []string{"own.test:5000/builds"},
		Allowed:   []*containerv1.Source{{Registry: "own.test:5000", Repository: "builds/ada", Reference: sum("issued")}},
		Recipe: &buildv1.Recipe{
			ContainerFile: "FROM up.test/base:1\nRUN true\n",
			Source:        &containerv1.Source{Registry: "own.test:5000", Repository: "builds/me", Reference: sum("me")},
		},
	})
	for name, d := range map[string]string{
		"up.test/base:1": sum("base"), "hub.test/prod/secret": sum("secret"), "hub.test/prod/open": sum("open"),
		"own.test:5000/builds/ada@" + sum("issued"): sum("issued"), "own.test:5000/builds/me@" + sum("me"): sum("me"),
		"own.test:5000/builds/bob:1": sum("denied"),
	} {
		for range 2 { // with the image, and again by its digest
			req := &policysession.CheckPolicyRequest{
				Platform: &pb.Platform{OS: "linux", Architecture: "amd64"},
				Source: &gateway.ResolveSourceMetaResponse{
					Source: &pb.SourceOp{Identifier: "docker-image://" + name}, Image: &gateway.ResolveSourceImageResponse{Digest: d, Config: []byte(`{}`)},
				},
			}
			if _, _, err := s.decide(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(name, "@") {
				name += "@" + d
			}
		}
	}
	want := &buildv1.Inputs{Inputs: []*buildv1.Input{
		{Digest: sum("open"), Registry: "hub.test", Repository: "prod/open"}, {Digest: sum("secret")},
		{Digest: sum("issued")}, {Digest: sum("base"), Registry: "up.test", Repository: "base"},
	}}
	if diff := cmp.Diff(want, s.inputs(t.Context(), remote.Deps{Registries: registries}), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for i := range limits.BuildInputs {
		s.noteImage("up.test/more:1", sum(strconv.Itoa(i)))
	}
	if got := s.inputs(t.Context(), remote.Deps{Registries: registries}); len(got.GetInputs()) != limits.BuildInputs || !got.GetIncomplete() {
		t.Errorf("%d inputs are reported, incomplete: %v", len(got.GetInputs()), got.GetIncomplete())
	}
}

package container_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/testkit"
)

func (b *builds) ListEngines(context.Context, *buildv1.ListEnginesRequest) (*buildv1.ListEnginesResponse, error) {
	if b.refuseEngine == "buildkit" {
		return &buildv1.ListEnginesResponse{Engines: []*buildv1.Engine{{Name: "buildkit", Problem: "runc is missing"}, {Name: "conda", Architectures: []string{"any"}}}}, nil
	}
	return &buildv1.ListEnginesResponse{Engines: []*buildv1.Engine{
		{Name: "buildkit", Architectures: []string{"amd64", "arm64"}}, {Name: "freeze", Architectures: []string{"any"}}, {Name: "mirror", Architectures: []string{"any"}},
		{Name: "sif", Architectures: []string{"any"}}, {Name: "conda", Problem: "layers cannot be kept"},
	}}, nil
}

// TestAbilities checks the abilities of services with different settings.
func TestAbilities(t *testing.T) {
	t.Parallel()
	no := func(name, why string) *containerv1.Ability {
		return &containerv1.Ability{Name: &name, Available: proto.Bool(false), Problem: &why}
	}
	yes := func(name string, platforms ...string) *containerv1.Ability {
		return &containerv1.Ability{Name: &name, Available: proto.Bool(true), Platforms: platforms}
	}
	conda, scan := no("conda", "no process plays the role conda; packages are solved while their image is built in steps"), no("scan", "scan_database is not set")
	const off = "this service is run without builds"
	db := testkit.SQLite(t)
	for name, c := range map[string]struct {
		harness containerv1.ContainerServiceClient
		want    []*containerv1.Ability
	}{
		"with workers": {newSiteWith(t, db, func(d *container.Deps) { d.Version = "1.2.3" }),
			[]*containerv1.Ability{yes("build", "linux/amd64", "linux/arm64"), yes("freeze"), yes("mirror"), yes("sif"), conda, scan}},
		"with the role conda": {newSolvedSite(t, &solver{}, time.Minute), []*containerv1.Ability{
			yes("build", "linux/amd64", "linux/arm64"), yes("freeze"), yes("mirror"), yes("sif"),
			no("conda", "packages are found and locked, but not put into images without steps: layers cannot be kept"), scan,
		}},
		"without builds": {newHarnessWith(t, db, func(d *container.Deps, _ *testkit.Registry) { d.Version = "1.2.3" }),
			[]*containerv1.Ability{no("build", off), no("freeze", off), no("mirror", off), no("sif", off), conda, scan}},
	} {
		got, err := c.harness.ListAbilities(t.Context(), &containerv1.ListAbilitiesRequest{})
		if want := (&containerv1.ListAbilitiesResponse{ProductVersion: proto.String("1.2.3"), Abilities: c.want}); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: got  %v, %v\nwant %v", name, got, err, want)
		}
	}
}

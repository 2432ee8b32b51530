package inspect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// plans is a container service that resolves tokens.
type plans struct {
	containerv1.ContainerServiceClient
	of     map[string]*containerv1.Plan
	layers map[string][]byte
}

func (p plans) ResolveToken(_ context.Context, req *containerv1.ResolveTokenRequest, _ ...grpc.CallOption) (*containerv1.ResolveTokenResponse, error) {
	if plan, ok := p.of[req.GetToken()]; ok {
		return &containerv1.ResolveTokenResponse{Plan: plan}, nil
	}
	return nil, fault.NotFound.Newf("There is no such container request, or it has expired")
}

// GetContainerStatus returns the state of the build that a plan names: "running", "failed" or
// "done".
func (p plans) GetContainerStatus(_ context.Context, req *containerv1.GetContainerStatusRequest, _ ...grpc.CallOption) (*containerv1.GetContainerStatusResponse, error) {
	switch p.of[req.GetRequestId()].GetBuildId() {
	case "running":
		return &containerv1.GetContainerStatusResponse{Status: proto.String("BUILDING")}, nil
	case "failed":
		return &containerv1.GetContainerStatusResponse{Status: proto.String("DONE"), Succeeded: proto.Bool(false), ReasonCode: proto.String("build")}, nil
	}
	return &containerv1.GetContainerStatusResponse{Status: proto.String("DONE"), Succeeded: proto.Bool(true)}, nil
}

// TestBuildsThatRun checks that inspecting the image of a running build returns a conflict with
// the build's id, rather than the registry's error for a missing image.
func TestBuildsThatRun(t *testing.T) {
	t.Parallel()
	known := plans{of: map[string]*containerv1.Plan{}}
	r := newFixtureWith(t, true, 1000, func(d *inspect.Deps) { d.Containers, d.Host = known, "slipway.example.org" })
	r.open.Push(t, "builds:done", testkit.Image(t, "amd64", true))
	for build, want := range map[string]error{"running": fault.Conflict, "failed": fault.NotFound, "done": nil} {
		known.of[build] = &containerv1.Plan{
			Source: &containerv1.Source{Registry: r.open.Host, Repository: "builds", Reference: build}, Platform: "linux/amd64",
			Name: "builds", Reference: build, BuildId: build,
		}
		_, err := r.inspect(t.Context(), "slipway.example.org/wt/"+build+"/builds:"+build, "", "")
		if want == nil && err != nil || want != nil && (!errors.Is(err, want) || !strings.Contains(err.Error(), "build "+build) || strings.Contains(err.Error(), r.open.Host)) {
			t.Errorf("%s: %v", build, err)
		}
	}
}

// TestIssuedNames inspects the images of issued names, with their augmentation.
func TestIssuedNames(t *testing.T) {
	t.Parallel()
	known := plans{of: map[string]*containerv1.Plan{}}
	r := newFixtureWith(t, true, 1000, func(d *inspect.Deps) { d.Containers, d.Host = known, "slipway.example.org" })
	r.closed.Push(t, "team/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	r.open.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	const layer = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	config := &containerv1.ContainerConfig{
		Env: []string{"A=b"}, Layers: []*containerv1.Layer{{Location: "data:", GzipDigest: layer, TarDigest: layer, GzipSize: proto.Int64(7)}},
	}
	ada := &platformv1.Identity{Endpoint: "e", UserId: 1}
	known.of["plain"] = &containerv1.Plan{Source: &containerv1.Source{Registry: r.open.Host, Repository: "lib/tool", Reference: "v1"}, Platform: "linux/amd64"}
	known.of["added"] = &containerv1.Plan{Source: &containerv1.Source{Registry: r.closed.Host, Repository: "team/tool", Reference: "v1"}, Platform: "linux/arm64", Config: config, Identity: ada}
	known.of["both"] = &containerv1.Plan{Source: known.of["added"].GetSource(), Platform: "linux/amd64,linux/arm64", Config: config, Identity: ada}
	for _, p := range known.of {
		p.Name, p.Reference = p.GetSource().GetRepository(), p.GetSource().GetReference()
	}
	known.of["frozen"] = &containerv1.Plan{Source: known.of["added"].GetSource(), Name: "team/tool", Reference: "v1", Platform: "linux/amd64", Identity: ada, Frozen: true}
	for _, c := range []struct {
		name, platform string
		added, index   bool
	}{
		{"plain/lib/tool:v1", "", false, false},
		{"added/team/tool:v1", "linux/arm64", true, true},
		{"added/team/tool:v1", "linux/amd64", false, true},
		{"both/team/tool:v1", "linux/amd64", true, true},
		{"both/team/tool:v1", "linux/arm64", true, true},
	} {
		res, err := r.inspect(t.Context(), "slipway.example.org/wt/"+c.name, c.platform, "")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		env := res.GetContainer().GetConfig().GetConfig().GetEnv()
		layers := res.GetContainer().GetManifest().GetLayers()
		if slices.Contains(env, "A=b") != c.added || (layers[len(layers)-1].GetDigest() == layer) != c.added || (res.GetIndex() != nil) != c.index {
			t.Errorf("%s for %q: %v", c.name, c.platform, res)
		}
		if got := res.GetContainer().GetImageName(); !strings.HasPrefix(got, "wt/") || strings.Contains(res.String(), r.closed.Host) {
			t.Errorf("%s is shown as %v", c.name, res)
		}
	}
	// A frozen request has an id but no token, and a token is valid for its own name only.
	for _, name := range []string{"gone/lib/tool:v1", "frozen/team/tool:v1", "frozen/any/thing:else", "added/any/thing:v1", "added/team/tool:v2", "added/team/tool/more:v1"} {
		if res, err := r.inspect(t.Context(), "slipway.example.org/wt/"+name, "", ""); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

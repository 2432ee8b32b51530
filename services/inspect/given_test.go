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

// plans stands in for the container room: what each token stands for.
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

// TestNamesThatWereGivenOut inspects what names stand for, with what is added.
func TestNamesThatWereGivenOut(t *testing.T) {
	t.Parallel()
	known := plans{of: map[string]*containerv1.Plan{}}
	r := newRoomWith(t, true, 1000, func(d *inspect.Deps) { d.Containers, d.Host = known, "slipway.example.org" })
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
	// A frozen request has an id, and no token; and a token is good for its own name.
	for _, name := range []string{"gone/lib/tool:v1", "frozen/team/tool:v1", "frozen/any/thing:else", "added/any/thing:v1", "added/team/tool:v2", "added/team/tool/more:v1"} {
		if res, err := r.inspect(t.Context(), "slipway.example.org/wt/"+name, "", ""); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

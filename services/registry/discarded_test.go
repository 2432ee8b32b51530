package registry_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/registry"
)

// discarding is a build service that lists discarded builds, a page of one at a time.
type discarding struct {
	buildv1.BuildServiceClient
	ids []string
	err error
}

func (d *discarding) ListDiscardedBuilds(_ context.Context, req *buildv1.ListDiscardedBuildsRequest, _ ...grpc.CallOption) (*buildv1.ListDiscardedBuildsResponse, error) {
	for _, id := range d.ids {
		if id > req.GetAfter() {
			return &buildv1.ListDiscardedBuildsResponse{BuildIds: []string{id}}, d.err
		}
	}
	return &buildv1.ListDiscardedBuildsResponse{}, d.err
}

// TestDiscardedImages checks that manifests and blobs of an image that was discarded, or has a
// layer of such an image, get 404 with the reason. Until the list can be read, names of built
// images are unavailable, and other names are served.
func TestDiscardedImages(t *testing.T) {
	t.Parallel()
	away := fault.Unavailable.Newf("The build service is away")
	for name, tc := range map[string]struct {
		build, included string
		err             error
		manifest, blob  int
	}{
		"built":                    {build: "b_1", manifest: 200, blob: 200},
		"discarded":                {build: "c_2", manifest: 404, blob: 404},
		"a discarded layer":        {included: "d_3", manifest: 404, blob: 404},
		"the list is unreadable":   {build: "b_1", err: away, manifest: 503, blob: 503},
		"nothing was built for it": {err: away, manifest: 200, blob: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builds := &discarding{ids: []string{"a_1", "c_2", "d_3"}, err: tc.err}
			var plan *containerv1.Plan
			f := newFrontWith(t, 1000, func(d *registry.Deps) {
				d.Builds = builds
				plan = d.Containers.(named).plan
			})
			other := &containerv1.Plan{
				Token: "other", Name: plan.GetName(), Reference: plan.GetReference(), Platform: plan.GetPlatform(), Source: plan.GetSource(),
				Expiration: timestamppb.New(time.Now().Add(time.Hour)), BuildId: tc.build, Built: tc.build != "", Config: &containerv1.ContainerConfig{},
			}
			if tc.included != "" {
				other.Config.Layers = []*containerv1.Layer{{
					GzipDigest: f.layer, TarDigest: "sha256:" + strings.Repeat("1", 64), GzipSize: &f.size,
					IncludedFrom: &containerv1.LayerOrigin{BuildId: tc.included, Registry: f.up.Host, Repository: "lib/tool", Reference: f.index, MediaType: "application/vnd.oci.image.layer.v1.tar+gzip"},
				}}
			}
			plan.Reset()
			plan.Token, plan.Name, plan.Reference, plan.Platform, plan.Source = other.Token, other.Name, other.Reference, other.Platform, other.Source
			plan.Expiration, plan.BuildId, plan.Built, plan.Config = other.Expiration, other.BuildId, other.Built, other.Config
			for path, want := range map[string]int{"/manifests/v1": tc.manifest, "/blobs/" + f.layer: tc.blob} {
				w := f.ask(http.MethodGet, strings.Replace(f.name, "abcdef", "other", 1)+path)
				if w.Code != want || want == 404 && !strings.Contains(w.Body.String(), "was revoked. Repeat the container request") {
					t.Errorf("%s is answered %d, want %d: %.300s", path, w.Code, want, w.Body)
				}
			}
		})
	}
}

package inspect_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/prometheus/client_golang/prometheus"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestPlatforms inspects images with available, missing and default platforms.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "single:v1", testkit.Image(t, "arm64", true))
	up.Push(t, "pair:v1", testkit.Index(t, true, "arm64", "amd64"))
	up.Push(t, "others:v1", testkit.Index(t, false, "s390x", "ppc64le"))
	variant := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: testkit.Image(t, "arm", true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}},
	})
	up.Push(t, "variant:v1", variant)
	up.Push(t, "empty:v1", empty.Index)

	s := newService(t, up)
	for _, c := range []struct {
		image, platform string
		arch            string // of the image; "" for none
		index           bool
		lacks           string
	}{
		{"single:v1", "", "arm64", false, ""},
		{"single:v1", "linux/arm64/v8", "arm64", false, ""},
		{"single:v1", "linux/amd64", "", false, "The image is not available for linux/amd64; it is for linux/arm64"},
		{"pair:v1", "", "amd64", true, ""},
		{"pair:v1", "arm64", "arm64", true, ""},
		{"pair:v1", "riscv64", "", false, "The image is not available for linux/riscv64; it is for linux/arm64, linux/amd64"},
		{"others:v1", "", "s390x", true, ""},
		{"variant:v1", "", "arm", true, ""},
		{"variant:v1", "arm/v6", "", false, "The image is not available for linux/arm/v6; it is for linux/arm/v7"},
		{"empty:v1", "", "", true, ""},
		{"empty:v1", "amd64", "", false, "The image is not available for linux/amd64, and does not state"},
	} {
		ctx := rpc.WithCall(t.Context(), rpc.Call{ClientIP: netip.MustParseAddr("127.0.0.1")})
		req := &inspectv1.InspectImageRequest{Image: &inspectv1.ImageQuery{ContainerImage: up.Host + "/" + c.image}}
		if c.platform != "" {
			req.Platform = &c.platform
		}
		got, err := s.InspectImage(ctx, req)
		if c.lacks != "" {
			if !errors.Is(err, fault.NotFound) || !strings.HasPrefix(err.Error(), c.lacks) {
				t.Errorf("%s for %q: %v", c.image, c.platform, err)
			}
			continue
		}
		if err != nil || got.GetContainer().GetConfig().GetArchitecture() != c.arch || (got.GetIndex() != nil) != c.index {
			t.Errorf("%s for %q: %v, %v", c.image, c.platform, got, err)
		}
		if c.arch != "" && !strings.HasPrefix(got.GetContainer().GetHostName(), "http://") {
			t.Errorf("the host's name is %q", got.GetContainer().GetHostName())
		}
	}
}

func newService(t *testing.T, up *testkit.Registry) *inspect.Service {
	t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	metrics := prometheus.NewRegistry()
	to := upstream.Options{Egress: egress, Plain: []string{up.Host}, Metrics: metrics}
	return inspect.New(inspect.Deps{
		Upstream: upstream.New(to), Control: upstream.NewControl(to), Keychain: caller.NewKeychain(nil, nil),
		Limiter: ratelimit.New(testkit.Redis(t), metrics, testkit.Log(t)), Metrics: metrics, AnonymousAccess: true,
	})
}

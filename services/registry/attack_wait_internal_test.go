package registry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/registry/blob"
)

// building is a container service whose image names all wait for one build.
type building struct {
	containerv1.ContainerServiceClient
}

func (building) ResolveToken(_ context.Context, req *containerv1.ResolveTokenRequest, _ ...grpc.CallOption) (*containerv1.ResolveTokenResponse, error) {
	return &containerv1.ResolveTokenResponse{Plan: &containerv1.Plan{
		Token: req.GetToken(), Name: "x", Reference: "v1", Source: &containerv1.Source{Registry: "r", Repository: "x", Reference: "v1"},
		Expiration: timestamppb.New(time.Now().Add(time.Hour)), BuildId: "beef_1",
	}}, nil
}

// endless is a build service whose build runs until the test lets it fail.
type endless struct {
	buildv1.BuildServiceClient
	end chan struct{}
}

func (e endless) AwaitBuild(ctx context.Context, _ *buildv1.AwaitBuildRequest, _ ...grpc.CallOption) (*buildv1.AwaitBuildResponse, error) {
	select {
	case <-e.end:
		return &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED, Reason: "solve"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// waitingRegistry returns a registry whose images are all being built, and a function that pulls
// from an address.
func waitingRegistry(t *testing.T, builds buildv1.BuildServiceClient) (*Registry, func(ip string) *httptest.ResponseRecorder) {
	t.Helper()
	blobs, err := blob.Open(blob.Config{Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Deps{
		Blobs:      blobs,
		Containers: building{}, Builds: builds, Bus: testkit.NATS(t), Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now,
		Keychain: caller.NewKeychain(nil, nil),
		Limiter:  ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t)),
		Settings: Settings{LayerDir: t.TempDir(), LayerCache: 1, ImageCache: 1 << 20, PullWait: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, func(ip string) *httptest.ResponseRecorder {
		ctx := rpc.WithCall(context.Background(), rpc.Call{ClientIP: netip.MustParseAddr(ip)})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/wt/tok/x/manifests/v1", nil))
		return w
	}
}

// TestAttackManyWaitingPulls starts as many pulls that wait for a build as one client may
// have. One more is rejected, and another client can still wait.
func TestAttackManyWaitingPulls(t *testing.T) {
	t.Parallel()
	builds := endless{end: make(chan struct{})}
	s, ask := waitingRegistry(t, builds)
	const cluster, other = "192.0.2.1", "192.0.2.2"
	var pulls sync.WaitGroup
	waits := func(ip string, n int64) {
		t.Helper()
		for range n - s.metrics.waiting.Load() {
			pulls.Go(func() {
				if w := ask(ip); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "MANIFEST_UNKNOWN") {
					t.Errorf("a pull that waited is answered %d: %s", w.Code, w.Body)
				}
			})
		}
		testkit.Until(t, "pulls", func() error {
			if now := s.metrics.waiting.Load(); now < n {
				return fmt.Errorf("%d wait, want %d", now, n)
			}
			return nil
		})
	}
	waits(cluster, limits.WaitingPulls)
	w := ask(cluster)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "TOOMANYREQUESTS") ||
		!strings.Contains(w.Body.String(), "the limit is 1000 at a time") {
		t.Errorf("one more is answered %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	waits(other, limits.WaitingPulls+1)
	close(builds.end)
	pulls.Wait()
	if w := ask(cluster); w.Code != http.StatusNotFound {
		t.Errorf("after the build's end a pull is answered %d: %s", w.Code, w.Body)
	}
}

// TestStopWaiting checks that a pull that waits for a build gets 503 after StopWaiting, and
// so does a later pull.
func TestStopWaiting(t *testing.T) {
	t.Parallel()
	s, ask := waitingRegistry(t, endless{end: make(chan struct{})})
	var pulls sync.WaitGroup
	respond := func() {
		if w := ask("192.0.2.1"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "pull again") {
			t.Errorf("a pull is answered %d, %v: %s", w.Code, w.Header(), w.Body)
		}
	}
	for range 3 {
		pulls.Go(respond)
	}
	testkit.Until(t, "pulls", func() error {
		if now := s.metrics.waiting.Load(); now < 3 {
			return fmt.Errorf("%d wait", now)
		}
		return nil
	})
	s.StopWaiting()
	pulls.Wait()
	respond()
}

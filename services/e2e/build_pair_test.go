package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// buildkitd starts a daemon that claims to build for arm64 too, and returns its address. Steps
// that execute no program need no arm64 processor.
func buildkitd(t testing.TB, plain string) (address string) {
	t.Helper()
	home, err := os.MkdirTemp("", "sw") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	address = "unix://" + home + "/sock"
	config := fmt.Sprintf(`root = "%[1]s/root"
[grpc]
  address = ["%[2]s"]
[worker.containerd]
  enabled = false
[worker.oci]
  platforms = ["linux/amd64", "linux/arm64"]
[registry."%[3]s"]
  http = true
`, home, address, plain)
	startDaemon(t, home, "buildkitd", "--config", writeFile(t, "buildkitd.toml", config))
	return address
}

// TestBuildForTwoPlatforms requests one image for two platforms, which needs two builds and an
// index, from an external daemon.
func TestBuildForTwoPlatforms(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	store := "127.0.0.1:" + testkit.FreePort(t)
	p := oneProcess(t, common(t, nil, settings{"store_addr": store, "buildkit_addr": buildkitd(t, store)}))
	if err := within(time.Minute, func() error {
		if !strings.Contains(p.procs[0].log(), "share one network with this BuildKit daemon") {
			return errors.New("there is no warning about a daemon that does not isolate steps")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	user := []string{"Authorization", "Bearer " + p.token}
	body := recipe("FROM scratch", "COPY hello.txt /", "ARG TARGETARCH", "ENV ARCH=$TARGETARCH")
	body["containerPlatform"] = "linux/amd64,linux/arm64"
	body["buildContext"] = dataLayer(t, "hello.txt", "of the context")
	answer := p.order(body, user...)
	target := text(answer, "targetImage")
	for _, arch := range []string{"amd64", "arm64"} {
		img := pull(t, target, arch) // waits for the build
		cf, err := img.ConfigFile()
		if err != nil || cf.Architecture != arch || !slices.Contains(cf.Config.Env, "ARCH="+arch) || files(t, img)["hello.txt"] != "of the context" {
			t.Errorf("for %s the image is %+v, %v", arch, cf, err)
		}
	}
	var index struct {
		Manifests []struct {
			Platform struct{ OS, Architecture string }
		}
	}
	mustJSON(t, request(t, http.MethodGet, manifest(target), nil).body, &index)
	var archs []string
	for _, m := range index.Manifests {
		if m.Platform.OS == "linux" { // other entries are provenance
			archs = append(archs, m.Platform.Architecture)
		}
	}
	if slices.Sort(archs); !slices.Equal(archs, []string{"amd64", "arm64"}) {
		t.Errorf("the index lists %q", archs)
	}
	if s := p.finished(t, answer); s["succeeded"] != true || s["buildId"] != answer["buildId"] {
		t.Errorf("the status is %v", s)
	}
	if again := p.order(body, user...); again["cached"] != true || again["succeeded"] != true || again["buildId"] != answer["buildId"] {
		t.Errorf("the repeated request returned %v", again)
	}
	body["containerPlatform"] = "linux/arm64"
	if one := p.order(body, user...); one["cached"] != true || one["succeeded"] != true || one["buildId"] == answer["buildId"] {
		t.Errorf("the request for one of the platforms returned %v", one)
	}
}

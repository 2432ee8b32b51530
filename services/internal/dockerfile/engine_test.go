package dockerfile_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/oci"
)

// registry returns an empty image for every name, and records the requested names.
type registry struct {
	mu    sync.Mutex
	asked []string
}

func (r *registry) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, ref)
	return ref, "", []byte(`{"os":"linux","architecture":"arm64"}`), nil
}

// engineReads makes BuildKit's frontend prepare a build, and returns the images that it
// looks up.
func engineReads(t *testing.T, text string) ([]string, error) {
	t.Helper()
	r := &registry{}
	platform := specs.Platform{OS: "linux", Architecture: "arm64"}
	_, err := dockerfile2llb.Dockerfile2LLB(t.Context(), []byte(text), dockerfile2llb.ConvertOpt{
		Config:       dockerui.Config{BuildArgs: map[string]string{"http_proxy": "http://proxy", "BUILDKIT_CACHE_MOUNT_NS": "x"}},
		MetaResolver: r, TargetPlatform: &platform,
	})
	return r.asked, err
}

// holdToEngine fails if the engine reads an image that this package does not find, since
// that image would not be checked.
func holdToEngine(t *testing.T, text string, images []oci.Reference) {
	t.Helper()
	asked, _ := engineReads(t, text)
	for _, name := range asked {
		ref, err := oci.ParseReference(name)
		if err != nil || !slices.Contains(images, ref) {
			t.Errorf("%q: the engine reads %s, we read %v (%v)", text, name, images, err)
		}
	}
}

// TestEngineIsHeld checks that the comparison with the engine works.
func TestEngineIsHeld(t *testing.T) {
	t.Parallel()
	got, err := engineReads(t, "ARG V=1\nFROM a:$V AS s\nFROM s\nONBUILD COPY --from=d / /\nCOPY --from=b / /\nRUN --mount=from=c,target=/c true\n")
	slices.Sort(got)
	if want := []string{"docker.io/library/a:1", "docker.io/library/b:latest", "docker.io/library/c:latest"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

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

// registry answers an empty image for every name, and writes down which were asked for.
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

// engineReads has BuildKit's frontend prepare a build, as a worker has it, and answers
// the images that it looks up.
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

// holdToEngine fails where the engine reads an image that we overlook: it would be
// one that nobody checked.
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

// TestEngineIsHeld shows that the engine's reading is one to hold ours to.
func TestEngineIsHeld(t *testing.T) {
	t.Parallel()
	got, err := engineReads(t, "ARG V=1\nFROM a:$V AS s\nFROM s\nONBUILD COPY --from=d / /\nCOPY --from=b / /\nRUN --mount=from=c,target=/c true\n")
	slices.Sort(got)
	if want := []string{"docker.io/library/a:1", "docker.io/library/b:latest", "docker.io/library/c:latest"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

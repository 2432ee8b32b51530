package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/condadata"
)

// largeBase returns an image with a layer that gets a zTOC.
func largeBase(t *testing.T) v1.Image {
	t.Helper()
	gz, _ := testkit.Tar(t, "base/large", condadata.Noise(t, 12))
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(gz)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.Append(testkit.Image(t, "amd64", true), mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestSoci pulls images with a SOCI index by their names: of packages, with additions, and a frozen copy.
// The library of soci-snapshotter must find the index, and read the layers with it.
func TestSoci(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, greet(t, "amd64"))
	base := up.Push(t, "base/large:1", largeBase(t))
	eachCopyShape(t, []string{up.Host}, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		packages := environment(base, "greet")
		packages["soci"] = true
		packages["sociPrefetch"] = []string{"/base/large", "/none"}
		added := map[string]any{}
		for name, value := range packages {
			added[name] = value
		}
		added["containerConfig"] = map[string]any{"env": []string{"ADDED=1"}}
		frozen := map[string]any{"containerImage": base, "soci": true, "sociPrefetch": []string{"/base/large", "/none"}, "freeze": true, "buildRepository": up.Host + "/team/frozen"}
		for kind, body := range map[string]map[string]any{"packages": packages, "with additions": added, "frozen": frozen} {
			answer := p.order(body)
			if s := p.finished(t, answer); s["succeeded"] != true || answer["message"] != nil {
				t.Fatalf("%s: %v, and the build ended as %v:\n%s", kind, answer["message"], s, p.logOf(answer))
			}
			if log := p.logOf(answer); !strings.Contains(log, "The path /none is not prefetched") || !strings.Contains(log, "1 files are prefetched, from 1 layers") {
				t.Errorf("%s: the log does not state what is prefetched:\n%s", kind, log)
			}
			judgeSoci(t, kind, text(answer, "targetImage"))
		}
		served := p.order(map[string]any{"containerImage": base, "soci": true})
		if !strings.Contains(text(served, "message"), "gets no SOCI index") {
			t.Errorf("for an image that is not built: %v", served)
		}
	})
}

// judgeSoci pulls an image and has its SOCI index checked.
func judgeSoci(t *testing.T, kind, image string) {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	dir := t.TempDir()
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.AppendIndex(index); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	root, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	judge := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin", "soci-judge")
	if _, err := os.Stat(judge); err != nil {
		t.Log("NOT TESTED with soci-snapshotter: run services/tools/clients.sh DIR and set SLIPWAY_TEST_CLIENTS=DIR")
		return
	}
	out, err := exec.CommandContext(t.Context(), judge, "image", dir, root.String(), "20", "1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "prefetch sha256:") {
		t.Errorf("%s: %v\n%s", kind, err, out)
	}
}

package buildkit_test

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
)

// TestBuildKitCompresses checks that layers have the requested compression, including those
// of the base image if that is forced.
func TestBuildKitCompresses(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Near: []string{"127.0.0.0/8"}})
	level := func(n int32) *int32 { return &n }
	const gz, zst = "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar+zstd"
	sizes := map[string]int64{}
	for _, tc := range []struct {
		name       string
		as         *containerv1.Compression
		base, made string
	}{
		{"usual", nil, gz, gz},
		{"gzip-0", &containerv1.Compression{Mode: "gzip", Level: level(0)}, gz, gz},
		{"zstd", &containerv1.Compression{Mode: "zstd", Level: level(19)}, gz, zst},
		{"all-zstd", &containerv1.Compression{Mode: "zstd", Force: true}, zst, zst},
		{"estargz", &containerv1.Compression{Mode: "estargz", Force: true}, gz, gz},
	} {
		job := w.Job(tc.name, "FROM BASE\nRUN echo "+tc.name+" > /made; head -c 300000 /usr/bin/busybox > /some\n")
		job.Recipe.Compression = tc.as
		if _, _, err := w.Build(t, job); err != nil {
			t.Fatal(err)
		}
		layers, img := layersOf(w, t, job)
		jobstest.CheckLayers(t, img)
		if len(layers) != 2 || !same(layers[0], tc.base) || !same(layers[1], tc.made) {
			t.Errorf("%s: the layers are %v", tc.name, layers)
		}
		for _, l := range layers {
			if is := l.Annotations["containerd.io/snapshot/stargz/toc.digest"] != ""; is != (tc.name == "estargz") {
				t.Errorf("%s: a layer has the annotations %v", tc.name, l.Annotations)
			}
		}
		sizes[tc.name] = layers[1].Size
	}
	if sizes["gzip-0"] < 300_000 || sizes["usual"] > 250_000 || sizes["zstd"] > 250_000 {
		t.Errorf("the layers have %v bytes", sizes)
	}
	// The daemon has the layer of the first build and would reuse it, so each compression
	// has its own cache.
	for scope, want := range map[string]string{"scope": gz, "scope of zstd": zst} {
		again := w.Job("again-"+string(scope[len(scope)-1]), "FROM BASE\nRUN echo usual > /made; head -c 300000 /usr/bin/busybox > /some\n")
		again.Recipe.Compression, again.CacheScope = &containerv1.Compression{Mode: "zstd"}, scope
		if _, _, err := w.Build(t, again); err != nil {
			t.Fatal(err)
		}
		if layers, _ := layersOf(w, t, again); len(layers) != 2 || !same(layers[1], want) {
			t.Errorf("in the %s the layers are %v, want %s", scope, layers, want)
		}
	}
	// Baked layers may lie on layers of any compression.
	frozen := w.Job("frozen", "FROM BASE\nRUN echo frozen > /made\n")
	frozen.Recipe.Compression = &containerv1.Compression{Mode: "zstd", Force: true}
	frozen.Recipe.Config = &containerv1.ContainerConfig{Env: []string{"A=1"}}
	if _, _, err := w.Build(t, frozen); err != nil {
		t.Fatal(err)
	}
	if layers, _ := layersOf(w, t, frozen); len(layers) != 2 || !same(layers[0], zst) || !same(layers[1], zst) {
		t.Errorf("frozen, the layers are %v", layers)
	}
}

// same compares media types, and treats Docker's names like OCI's.
func same(l v1.Descriptor, mediaType string) bool {
	return string(l.MediaType) == mediaType || strings.HasSuffix(mediaType, "gzip") && l.MediaType.IsLayer() && strings.HasSuffix(string(l.MediaType), "gzip")
}

// layersOf returns the layers that a job has pushed.
func layersOf(w *buildkittest.Fixture, t *testing.T, job jobs.Job) ([]v1.Descriptor, v1.Image) {
	t.Helper()
	_, img := buildkittest.Contents(t, w.Pull(t, job.Target.GetRepository()+":"+job.Target.GetTag()))
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Layers, img
}

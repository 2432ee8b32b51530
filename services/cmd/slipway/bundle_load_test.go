package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// TestBundleLoadsCircles pushes an image with an index that refers to the image and also contains it.
func TestBundleLoadsCircles(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	image := testkit.Image(t, "amd64", true)
	b.names = []string{b.up.Push(t, "lab/tool:1", image), b.up.Push(t, "lab/tool:same", image)}
	raw, err := image.RawManifest()
	must(t, err)
	media, err := image.MediaType()
	must(t, err)
	hash, err := image.Digest()
	must(t, err)
	around, ok := mutate.Subject(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image}), v1.Descriptor{MediaType: media, Digest: hash, Size: int64(len(raw))}).(v1.ImageIndex)
	if !ok {
		t.Fatal("it is no index")
	}
	b.up.Push(t, "lab/tool@"+digestOf(t, around), around)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 0 || !strings.Contains(got.errs, "Verified 2 manifests") {
		t.Errorf("list: %+v", got)
	}
	to := testkit.NewRegistry(t, testkit.Open)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	got := slipway(ctx, nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror", "--nextflow-config", filepath.Join(t.TempDir(), "x"))
	if got.code != 0 {
		t.Fatalf("load: %+v", got)
	}
	for name, want := range map[string]string{":1": digestOf(t, image), ":same": digestOf(t, image), "@" + digestOf(t, around): digestOf(t, around)} {
		if got := pulledDigest(t, to.Host+"/mirror/lab/tool"+name); got != want {
			t.Errorf("%s has the digest %s, want %s", name, got, want)
		}
	}
}

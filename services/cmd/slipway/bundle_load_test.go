package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

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

// TestBundleLoadsDamaged checks that damage is noticed: load pushes no image with a
// changed layer, no client of serve accepts it, and both refuse a changed manifest.
func TestBundleLoadsDamaged(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	images, err := b.index.IndexManifest()
	must(t, err)
	child := images.Manifests[0].Digest
	image, err := b.index.Image(child)
	must(t, err)
	layers, err := image.Layers()
	must(t, err)
	layer := digestOf(t, layers[0])
	damage(t, filepath.Join(b.folder, "blobs", "sha256", strings.TrimPrefix(layer, "sha256:")))
	to := testkit.NewRegistry(t, testkit.Open)
	config := filepath.Join(t.TempDir(), "mirror.config")
	got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror", "--nextflow-config", config)
	if got.code != 1 || !strings.Contains(got.errs, "the blob "+layer) || !strings.Contains(got.errs, "configuration of Nextflow was not written") || strings.Contains(got.out, "lab/both") {
		t.Errorf("load: %+v", got)
	}
	if _, err := os.Stat(config); err == nil {
		t.Error("a configuration without all images was written")
	}
	if got, want := pulledDigest(t, to.Host+"/mirror/lab/one:1"), pulledDigest(t, b.names[0]); got != want {
		t.Errorf("the intact image has the digest %s, want %s", got, want)
	}
	pull := func(image string) error {
		ref, err := name.ParseReference(image, name.Insecure)
		must(t, err)
		index, err := remote.Index(ref)
		if err != nil {
			return err
		}
		return validate.Index(index)
	}
	if err := pull(to.Host + "/mirror/lab/both:v1"); err == nil {
		t.Error("the damaged image was pushed")
	}
	if err := pull(served(t, b.folder) + "/lab/both:v1"); err == nil {
		t.Error("the damaged image was pulled")
	}
	damage(t, filepath.Join(b.folder, "blobs", "sha256", child.Hex))
	for _, args := range [][]string{{"load", b.folder, "--to", to.Host}, {"serve", b.folder, "--listen", "127.0.0.1:0"}} {
		if got := slipway(t.Context(), nil, append([]string{"bundle"}, args...)...); got.code != 1 || !strings.Contains(got.errs, child.String()) {
			t.Errorf("%s: %+v", args[0], got)
		}
	}
}

// TestBundleConfigurations checks where configurations of Nextflow are written, and that none has
// names that no client can use.
func TestBundleConfigurations(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	to := testkit.NewRegistry(t, testkit.Open)
	got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror/", "--nextflow-config", "-")
	if got.code != 0 || !strings.HasPrefix(got.out, "//") || !strings.HasSuffix(got.out, "}\n") || !strings.Contains(got.errs, to.Host+"/mirror/lab/one:1\n") {
		t.Errorf("got %+v", got)
	}
	config := filepath.Join(t.TempDir(), "x.config")
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"both on standard output": {[]string{"load", b.folder, "--to", to.Host, "--nextflow-config", "-", "-o", "json"}, 2, "would both be written to standard output"},
		"no registry":             {[]string{"load", b.folder, "--to", "team/my.images"}, 2, "--to must be a registry and a path"},
		"no name":                 {[]string{"load", b.folder, "--to", "registry.example.org/A B"}, 2, "--to must be a registry and a path"},
		"all addresses":           {[]string{"serve", b.folder, "--listen", "0.0.0.0:0", "--nextflow-config", config}, 2, "give one with --host"},
		"all addresses, short":    {[]string{"serve", b.folder, "--listen", ":5000", "--nextflow-config", config}, 2, "e.g. --host head.cluster:5000"},
		"all addresses of IPv6":   {[]string{"serve", b.folder, "--listen", "[::]:0", "--nextflow-config", config}, 2, "give one with --host"},
		"an invalid host":         {[]string{"serve", b.folder, "--host", "a b", "--nextflow-config", config}, 2, "--host must be the name of a registry"},
		"no certificate":          {[]string{"serve", b.folder, "--listen", "127.0.0.1:0", "--cert", "none", "--key", "none", "--nextflow-config", config}, 1, "reading the certificate"},
	} {
		if got := slipway(t.Context(), nil, append([]string{"bundle"}, tc.args...)...); got.code != tc.code || !strings.Contains(got.errs, tc.want) || strings.Contains(got.errs, "Serving") {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
	if _, err := os.Stat(config); err == nil {
		t.Error("a configuration was written")
	}
}

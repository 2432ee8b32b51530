package oci_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// permissive returns the same manifest and config for every digest.
type permissive struct{ manifest, config []byte }

func (a permissive) Manifest(context.Context, digest.Digest) (oci.Document, error) {
	return oci.NewDocument(ocispec.MediaTypeImageManifest, a.manifest), nil
}

func (a permissive) Config(context.Context, ocispec.Descriptor) ([]byte, error) { return a.config, nil }

var everything = oci.Augmentation{
	Entrypoint: []string{"/entry", "-x"}, Cmd: []string{"<run>"}, WorkingDir: "/work", Env: []string{"A=1", "PATH=/x"},
	Layers: []oci.Layer{added("one"), added("two")},
}

func addSeeds(f *testing.F) {
	manifest := []byte(ociKind.text("{}", ociKind.layerOf("old", 5), `,"annotations":{"a":"b"}`))
	f.Add(manifest, []byte(`{"architecture":"amd64","config":{"Entrypoint":["/e"],"Env":["A=2"]},"rootfs":{"type":"layers","diff_ids":["x"]},"history":[{}]}`))
	f.Add(manifest, []byte(`{"config":null,"rootfs":null,"history":null}`))
	f.Add([]byte(`{"config":`+desc+`,"layers":null,"subject":`+desc+`}`), []byte(`{}`))
	f.Add([]byte(`{"config":`+desc+`,"config":`+desc+`}`), []byte(`{"config":{},"config":{}}`))
}

func FuzzAugment(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		root := oci.NewDocument(ocispec.MediaTypeImageManifest, manifest)
		out, err := oci.Augment(t.Context(), permissive{manifest, config}, root, everything, linuxAMD64)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%v is no fault.Invalid", err)
			}
			return
		}
		again, err := oci.Augment(t.Context(), permissive{manifest, config}, root, everything, linuxAMD64)
		if diff := cmp.Diff(out, again); err != nil || diff != "" {
			t.Errorf("another run: %v %s", err, diff)
		}
		checkSound(t, out.Root)
		checkSound(t, out.Images[0].Config)
		checkLayers(t, root, out)
	})
}

// checkSound fails unless the document is JSON and has the digest of its bytes.
func checkSound(t *testing.T, d oci.Document) {
	t.Helper()
	if d.Digest != digest.FromBytes(d.Bytes) {
		t.Errorf("%s is not the digest of %s", d.Digest, d.Bytes)
	}
	if !json.Valid(d.Bytes) {
		t.Errorf("made invalid JSON: %s", d.Bytes)
	}
}

// checkLayers fails unless the manifest has the old layers, the added layers on top of them,
// and the new config.
func checkLayers(t *testing.T, root oci.Document, out oci.AugmentedImage) {
	t.Helper()
	old, err1 := oci.ParseManifest(root)
	m, err2 := oci.ParseManifest(out.Root)
	if err1 != nil || err2 != nil {
		t.Fatalf("%v, %v", err1, err2)
	}
	want := old.Layers
	for _, l := range everything.Layers {
		want = append(want, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: l.GzipDigest, Size: l.Size})
	}
	if diff := cmp.Diff(want, m.Layers); diff != "" {
		t.Errorf("layers of %s: %s", out.Root.Bytes, diff)
	}
	if c := out.Images[0].Config; m.Config.Digest != c.Digest || m.Config.Size != int64(len(c.Bytes)) {
		t.Errorf("%s does not point at the config %s", out.Root.Bytes, c.Digest)
	}
}

func FuzzAugmentIndex(f *testing.F) {
	r := repo{}
	img := r.image(ociKind, `{}`)
	f.Add(r.index(ociKind, describe(img, platform("linux", "amd64", "")), describe(img, platform("linux", "arm64", ""))).Bytes)
	f.Add(r.index(dockerKind, describe(img, `,"data":"QQ=="`+platform("linux", "amd64", "v1")), describe(img, platform("unknown", "unknown", ""))).Bytes)
	f.Fuzz(func(t *testing.T, raw []byte) {
		root := oci.NewDocument(ocispec.MediaTypeImageIndex, raw)
		out, err := oci.Augment(t.Context(), permissive{img.Bytes, []byte(`{}`)}, root, everything, linuxAMD64)
		if err != nil {
			if !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.NotFound) {
				t.Errorf("%v is neither Invalid nor NotFound", err)
			}
			return
		}
		checkSound(t, out.Root)
		old, err1 := oci.ParseIndex(root)
		x, err2 := oci.ParseIndex(out.Root)
		if err1 != nil || err2 != nil || len(old.Manifests) != len(x.Manifests) {
			t.Fatalf("%v, %v: %d entries became %d", err1, err2, len(old.Manifests), len(x.Manifests))
		}
		changed := oci.Matching(old, linuxAMD64)
		for i, e := range old.Manifests {
			if slices.Contains(changed, i) {
				e.Digest, e.Size = out.Images[0].Manifest.Digest, int64(len(out.Images[0].Manifest.Bytes))
			}
			if diff := cmp.Diff(e, x.Manifests[i]); diff != "" {
				t.Errorf("entry %d: %s", i, diff)
			}
		}
	})
}

package oci_test

import (
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/oci"
)

const artifact = "application/vnd.example.index"

// accompanied returns an image with a companion in an index.
func accompanied(t *testing.T, r repo, manifest oci.Document) (root, companion oci.Document) {
	t.Helper()
	companion = r.add(ocispec.MediaTypeImageManifest, `{"config":{"mediaType":"`+artifact+`","digest":"`+manifest.Digest.String()+`","size":2}}`)
	root, err := oci.Accompany(manifest, manifest.Digest, linuxAMD64, manifest, ocispec.Descriptor{
		MediaType: companion.MediaType, ArtifactType: artifact, Digest: companion.Digest, Size: int64(len(companion.Bytes)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.add(root.MediaType, string(root.Bytes)), companion
}

// TestAugmentWithCompanion checks that an artifact for the same platform is not augmented and remains,
// and that it follows the image.
func TestAugmentWithCompanion(t *testing.T) {
	t.Parallel()
	r := repo{}
	image := r.image(ociKind, `{"architecture":"amd64"}`)
	root, companion := accompanied(t, r, image)
	out := augment(t, r, root, oneLayer)
	x, err := oci.ParseIndex(out.Root)
	if err != nil || len(out.Images) != 1 || len(x.Manifests) != 2 {
		t.Fatalf("%d images, %+v, %v", len(out.Images), x, err)
	}
	augmented, other := x.Manifests[0], x.Manifests[1]
	if augmented.Digest != out.Images[0].Manifest.Digest || augmented.Digest == image.Digest {
		t.Errorf("the image is %s", augmented.Digest)
	}
	if other.Digest != companion.Digest || other.ArtifactType != artifact || other.Annotations[oci.CompanionOf] != augmented.Digest.String() {
		t.Errorf("the companion is %+v", other)
	}
}

// TestAccompanyInIndex checks that an image of an index is replaced, and all other bytes are unchanged.
func TestAccompanyInIndex(t *testing.T) {
	t.Parallel()
	r := repo{}
	amd, arm := r.image(ociKind, `{"architecture":"amd64"}`), r.image(ociKind, `{"architecture":"arm64"}`)
	root := r.index(ociKind, describe(arm, platform("linux", "arm64", "")+`,"zz":1.50`), describe(amd, platform("linux", "amd64", "")))
	noted, err := oci.Annotate(amd, map[string]string{"b": "<2>", "a": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(noted.Bytes), `"annotations":{"a":"1","b":"<2>"}}`) {
		t.Errorf("the manifest is %s", noted.Bytes)
	}
	got, err := oci.Accompany(root, amd.Digest, linuxAMD64, noted, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifact, Digest: arm.Digest, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(root.Bytes), describe(amd, platform("linux", "amd64", "")), describe(noted, platform("linux", "amd64", ""))+
		`,{"mediaType":"`+ocispec.MediaTypeImageManifest+`","digest":"`+arm.Digest.String()+`","size":3,"annotations":{"`+oci.CompanionOf+`":"`+noted.Digest.String()+
		`"},"platform":{"architecture":"amd64","os":"linux"},"artifactType":"`+artifact+`"}`, 1)
	if string(got.Bytes) != want {
		t.Errorf("got  %s\nwant %s", got.Bytes, want)
	}
	if _, err := oci.Accompany(root, noted.Digest, linuxAMD64, noted, ocispec.Descriptor{}); err == nil {
		t.Error("an index without the image is accepted")
	}
}

// TestAnnotateConverts checks that a Docker manifest becomes an OCI manifest with the same content, and
// that other documents are rejected.
func TestAnnotateConverts(t *testing.T) {
	t.Parallel()
	r := repo{}
	docker := r.image(dockerKind, `{}`)
	got, err := oci.Annotate(docker, map[string]string{"a": "1"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := oci.ParseManifest(got)
	if err != nil || got.MediaType != ocispec.MediaTypeImageManifest || m.MediaType != got.MediaType || m.Config.MediaType != ocispec.MediaTypeImageConfig || m.Annotations["a"] != "1" {
		t.Errorf("%s, %v", got.Bytes, err)
	}
	of, err := oci.ParseManifest(docker)
	if err != nil || m.Config.Digest != of.Config.Digest || len(m.Layers) != len(of.Layers) || m.Layers[0].Digest != of.Layers[0].Digest {
		t.Errorf("%s instead of %s, %v", got.Bytes, docker.Bytes, err)
	}
	for name, raw := range map[string]string{"an artifact": `{"config":{"mediaType":"x","digest":"` + docker.Digest.String() + `","size":1}}`, "no JSON": `{`} {
		if _, err := oci.Annotate(oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(raw)), nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

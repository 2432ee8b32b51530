package oci_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

var oneLayer = oci.Augmentation{Layers: []oci.Layer{added("x")}}

func TestAugmentIndex(t *testing.T) {
	t.Parallel()
	const attested = `,"annotations":{"vnd.docker.reference.type":"attestation-manifest"},"platform":{"architecture":"unknown","os":"unknown"}`
	for _, k := range []kind{ociKind, dockerKind} {
		t.Run(k.index, func(t *testing.T) {
			t.Parallel()
			r := repo{}
			amd, arm := r.image(k, `{"architecture":"amd64"}`), r.image(k, `{"architecture":"arm64"}`)
			proof, nested := r.image(k, `{}`), r.index(k)
			around := []string{
				describe(arm, `,"platform":{"os":"linux","architecture":"arm64"},"zz":1.50,"data":"QQ=="`),
				describe(proof, attested),
				describe(nested, platform("linux", "amd64", "")),
				describe(proof, ""),
			}
			entry := func(d oci.Document) string {
				return `{"annotations":{"k":"<v>"},` + strings.TrimPrefix(describe(d, platform("linux", "amd64", "")), "{")
			}
			text := func(entry string) string {
				return `{"mediaType":"` + k.index + `","annotations":{"z":"1","a":"2"},"manifests":[` +
					strings.Join([]string{around[0], entry, around[1], around[2], around[3]}, ",") + `],"schemaVersion":2,"unknown":[1.0]}`
			}
			out := augment(t, r, r.add(k.index, text(entry(amd))), oneLayer)

			if len(out.Images) != 1 {
				t.Fatalf("%d images were augmented", len(out.Images))
			}
			sameDocument(t, oci.NewDocument(k.index, []byte(text(entry(out.Images[0].Manifest)))), out.Root)
			alone := augment(t, r, amd, oneLayer)
			sameDocument(t, alone.Root, out.Images[0].Manifest)
		})
	}
}

// TestAugmentTwoPlatforms checks that the entries of both platforms are changed.
func TestAugmentTwoPlatforms(t *testing.T) {
	t.Parallel()
	r := repo{}
	amd, arm, s390 := r.image(ociKind, `{"architecture":"amd64"}`), r.image(ociKind, `{"architecture":"arm64"}`), r.image(ociKind, `{"architecture":"s390x"}`)
	root := r.index(ociKind, describe(amd, platform("linux", "amd64", "")), describe(arm, platform("linux", "arm64", "")), describe(s390, platform("linux", "s390x", "")))
	both, err := oci.ParsePlatforms("linux/amd64,arm64")
	if err != nil {
		t.Fatal(err)
	}
	out, err := oci.Augment(t.Context(), r, root, oneLayer, both...)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Images) != 2 || out.Images[0].Manifest.Digest != augment(t, r, amd, oneLayer).Root.Digest || out.Images[1].Manifest.Digest != augment(t, r, arm, oneLayer).Root.Digest {
		t.Errorf("%d images were augmented", len(out.Images))
	}
	if !strings.Contains(string(out.Root.Bytes), s390.Digest.String()) {
		t.Error("the third entry changed")
	}
}

func TestAugmentDropsTheDataOfAChangedEntry(t *testing.T) {
	t.Parallel()
	r := repo{}
	amd := r.image(ociKind, `{"architecture":"amd64"}`)
	out := augment(t, r, r.index(ociKind, describe(amd, `,"data":"QQ=="`+platform("linux", "amd64", ""))), oneLayer)
	want := r.index(ociKind, describe(out.Images[0].Manifest, platform("linux", "amd64", "")))
	sameDocument(t, want, out.Root)
}

func TestAugmentOfTheOtherPlatform(t *testing.T) {
	t.Parallel()
	r := repo{}
	amd, arm := r.image(ociKind, `{"architecture":"amd64"}`), r.image(ociKind, `{"architecture":"arm64"}`)
	root := r.index(ociKind, describe(amd, platform("linux", "amd64", "")), describe(arm, platform("linux", "arm64", "v8")))
	out, err := oci.Augment(t.Context(), r, root, oneLayer, ocispec.Platform{OS: "linux", Architecture: "arm64"})
	if err != nil {
		t.Fatal(err)
	}
	x, err := oci.ParseIndex(out.Root)
	if err != nil || x.Manifests[0].Digest != amd.Digest || x.Manifests[1].Digest != out.Images[0].Manifest.Digest {
		t.Errorf("%v %+v", err, x)
	}
}

func TestAugmentASingleImageOfAnotherPlatform(t *testing.T) {
	t.Parallel()
	r := repo{}
	out := augment(t, r, r.image(ociKind, `{"architecture":"arm64"}`), oneLayer)
	if len(out.Images) != 1 || !strings.Contains(string(out.Root.Bytes), ociKind.layerOf("x.tar.gz", 11)) {
		t.Errorf("a single image is served whatever its platform; got %s", out.Root.Bytes)
	}
}

func TestAugmentWithoutAMatch(t *testing.T) {
	t.Parallel()
	r := repo{}
	img := r.image(ociKind, `{}`)
	for _, tc := range []struct {
		name    string
		entries []string
		want    string
	}{
		{"others", []string{
			describe(img, platform("linux", "arm64", "")), describe(img, platform("unknown", "unknown", "")),
			describe(img, platform("linux", "arm", "v6")), describe(img, platform("windows", "amd64", "")),
		}, "The image is not available for linux/amd64; it has linux/arm64, linux/arm/v6, windows/amd64"},
		{"no entries", nil, "The image is not available for linux/amd64; it has no platforms"},
		{"entries without a platform", []string{describe(img, "")}, "The image is not available for linux/amd64; it has no platforms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := oci.Augment(t.Context(), r, r.index(ociKind, tc.entries...), oneLayer, linuxAMD64)
			e, _ := fault.As(err)
			if !errors.Is(err, fault.NotFound) {
				t.Fatalf("got %v, want fault.NotFound", err)
			}
			if diff := cmp.Diff(tc.want, e.Public); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAugmentIndexRefuses(t *testing.T) {
	t.Parallel()
	r := repo{}
	img := r.image(ociKind, `{"architecture":"amd64"}`)
	nested := r.index(ociKind, describe(img, platform("linux", "amd64", "")))
	amd64 := platform("linux", "amd64", "")
	lost := oci.NewDocument(ocispec.MediaTypeImageManifest, []byte("lost"))
	text := func(entry string) string { return `{"manifests":[` + entry + `]}` }
	for _, tc := range []struct {
		name, in string
		want     fault.Kind
	}{
		{"no JSON", `[`, fault.Invalid},
		{"a member twice", `{"manifests":[` + describe(img, amd64) + `],"manifests":[` + describe(img, amd64) + `]}`, fault.Invalid},
		{"a member of the entry twice", text(describe(img, amd64+`,"digest":"`+img.Digest.String()+`"`)), fault.Invalid},
		{"an entry whose manifest is missing", text(describe(lost, amd64)), fault.NotFound},
		{"an index with the type of a manifest", text(strings.Replace(describe(nested, amd64), ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, 1)), fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := oci.Augment(t.Context(), r, oci.NewDocument(ocispec.MediaTypeImageIndex, []byte(tc.in)), oneLayer, linuxAMD64)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

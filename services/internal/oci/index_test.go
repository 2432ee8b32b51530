package oci_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/oci"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	single := oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(`{"schemaVersion":2}`))
	arm := ocispec.Platform{OS: "linux", Architecture: "arm64"}
	entry := `{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + single.Digest.String() + `","size":19,"platform":{"architecture":"arm64","os":"linux"}}`
	inner := oci.NewDocument(ocispec.MediaTypeImageIndex, []byte(`{"schemaVersion":2,"manifests":[`+entry+`]}`))
	want := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` + entry + `,` + entry + `],"annotations":{"k":"v"}}`
	got, err := oci.NewIndex([]oci.Part{{Image: single, Platform: arm}, {Image: inner}}, map[string]string{"k": "v"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got.Bytes)); diff != "" {
		t.Error(diff)
	}
	if _, err := oci.NewIndex([]oci.Part{{Image: oci.NewDocument(ocispec.MediaTypeImageIndex, []byte(`{"manifests":[{"digest":"x"}]}`))}}, nil); err == nil {
		t.Error("a malformed part is taken")
	}
}

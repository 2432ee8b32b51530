package oci_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/oci"
)

func TestAdditionOf(t *testing.T) {
	t.Parallel()
	if !oci.NewAugmentation(nil).IsZero() {
		t.Error("nothing adds something")
	}
	dir, size := "/work", int64(7)
	got := oci.NewAugmentation(&containerv1.ContainerConfig{
		Entrypoint: []string{"/e"}, Cmd: []string{"c"}, Env: []string{"A=1"}, WorkingDir: dir,
		Layers: []*containerv1.Layer{{Location: "https://l.example/fusion-amd64.json", GzipDigest: "sha256:g", GzipSize: &size, TarDigest: "sha256:t"}},
	})
	want := oci.Augmentation{
		Entrypoint: []string{"/e"}, Cmd: []string{"c"}, Env: []string{"A=1"}, WorkingDir: dir,
		Layers: []oci.Layer{{GzipDigest: "sha256:g", TarDigest: "sha256:t", Size: size, Architecture: oci.ArchitectureOf("https://l.example/fusion-amd64.json")}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

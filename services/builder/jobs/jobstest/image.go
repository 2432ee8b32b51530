package jobstest

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// CheckLayers checks that every layer of an image matches its configuration.
func CheckLayers(t *testing.T, img v1.Image) {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != len(cf.RootFS.DiffIDs) {
		t.Fatalf("%d layers of %d, %v", len(layers), len(cf.RootFS.DiffIDs), err)
	}
	for i, l := range layers {
		content, err := l.Uncompressed() // gzip or zstd
		if err != nil {
			t.Fatal(err)
		}
		if id, _, err := v1.SHA256(content); err != nil || id != cf.RootFS.DiffIDs[i] {
			t.Errorf("layer %d is %s, %v, instead of %s", i, id, err, cf.RootFS.DiffIDs[i])
		}
	}
}

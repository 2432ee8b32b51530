package testkit

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PushArtifact pushes an OCI manifest to host/ref with one layer for each pair of a media type and a content.
func (r *Registry) PushArtifact(t testing.TB, ref string, typesAndContents ...string) {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.unknown.config.v1+json")
	for i := 0; i < len(typesAndContents); i += 2 {
		var err error
		layer := static.NewLayer([]byte(typesAndContents[i+1]), types.MediaType(typesAndContents[i]))
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	r.Push(t, ref, img)
}

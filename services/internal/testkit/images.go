package testkit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image returns a random image of two layers for linux/arch, with an entrypoint, a command
// and a variable. oci selects an OCI image instead of a Docker one.
func Image(t testing.TB, arch string, oci bool) v1.Image {
	t.Helper()
	img, err := random.Image(1<<10, 2)
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", arch
	cf.Config = v1.Config{
		Entrypoint: []string{"/bin/entry"}, Cmd: []string{"run"}, Env: []string{"PATH=/bin", "HOME=/root"},
	}
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	if oci {
		img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	return img
}

// Index returns a random index of images for the architectures.
func Index(t testing.TB, oci bool, archs ...string) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	if !oci {
		index = mutate.IndexMediaType(index, types.DockerManifestList)
	}
	for _, arch := range archs {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        Image(t, arch, oci),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index
}

// Tar returns a gzipped tar with one file, and the uncompressed tar.
func Tar(t testing.TB, path, content string) (gz, plain []byte) {
	t.Helper()
	var raw, packed bytes.Buffer
	w := tar.NewWriter(&raw)
	if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content)), Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes(), raw.Bytes()
}

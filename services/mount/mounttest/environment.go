// Package mounttest makes environments for tests.
package mounttest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/pack"
)

// Mtime is the time of all files.
const Mtime = 1_700_000_000

// Files are the contents of executable files by their paths. A value that begins with -> is the target of a symbolic link.
type Files map[string]string

// A Package is a blob.
type Package struct {
	pack.Package
	Blob   []byte
	Digest digest.Digest
}

// Pack packs files, which are added in the order of names.
func Pack(t testing.TB, files Files) Package {
	t.Helper()
	var out bytes.Buffer
	w := pack.NewWriter(&out)
	for _, name := range sorted(files) {
		var err error
		if target, ok := strings.CutPrefix(files[name], "->"); ok {
			err = w.Symlink(name, target, Mtime)
		} else {
			err = w.File(name, 0o755, Mtime, int64(len(files[name])), strings.NewReader(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return Package{Package: p, Blob: out.Bytes(), Digest: digest.FromBytes(out.Bytes())}
}

func sorted(files Files) []string {
	var out []string
	for name := range files {
		at := len(out)
		for at > 0 && out[at-1] > name {
			at--
		}
		out = append(out[:at], append([]string{name}, out[at:]...)...)
	}
	return out
}

// Index returns the index of an environment of packages.
func Index(t testing.TB, packages ...Package) []byte {
	t.Helper()
	tree := erofs.NewTree()
	var devices []erofs.Device
	for _, p := range packages {
		x, err := erofs.Open(p.Index)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Merge(x, len(devices)); err != nil {
			t.Fatal(err)
		}
		devices = append(devices, x.Devices()...)
	}
	b, err := tree.Encode(devices)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A Layout is a folder with an OCI layout that has an image and its environment.
type Layout struct {
	Folder string
	// Image and Environment are the digests of their manifests, and Index that of the index.
	Image, Environment, Index digest.Digest
}

// Write writes an image with the tag latest and its environment.
func Write(t testing.TB, folder string, env []string, packages ...Package) Layout {
	t.Helper()
	return WriteOn(t, folder, ocispec.ImageConfig{Env: env}, nil, packages...)
}

// WriteOn writes an image with the tag latest, whose lower layers are the archives base, and its environment if there are packages. With a base, the manifest
// of the image has layers of the packages, which do not exist.
func WriteOn(t testing.TB, folder string, config ocispec.ImageConfig, base [][]byte, packages ...Package) Layout {
	t.Helper()
	l := Layout{Folder: folder}
	described := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, Config: config}
	layers := []ocispec.Descriptor{}
	add := func(d ocispec.Descriptor, by string) {
		layers, described.History = append(layers, d), append(described.History, ocispec.History{CreatedBy: by})
	}
	for _, raw := range base {
		add(l.blob(t, ocispec.MediaTypeImageLayer, raw), "base")
	}
	for _, p := range packages[:len(packages)*min(1, len(base))] {
		add(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(p.Device.Name()), Size: 1}, "conda: "+p.Device.Name())
	}
	l.Image = l.image(t, described, layers, packages)
	return l
}

// image writes the manifests of an image and of its environment.
func (l *Layout) image(t testing.TB, config ocispec.Image, layers []ocispec.Descriptor, packages []Package) digest.Digest {
	t.Helper()
	image := l.json(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: l.json(t, ocispec.MediaTypeImageConfig, config), Layers: layers,
	})
	l.Image = image.Digest
	l.write(t, "oci-layout", ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	manifests := []ocispec.Descriptor{image}
	manifests[0].Annotations = map[string]string{ocispec.AnnotationRefName: "latest"}
	if len(packages) > 0 {
		manifests = append(manifests, l.environment(t, image, packages))
	}
	l.write(t, "index.json", ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests})
	return image.Digest
}

// environment writes the environment of an image, and returns the list of the image's referrers.
func (l *Layout) environment(t testing.TB, image ocispec.Descriptor, packages []Package) ocispec.Descriptor {
	t.Helper()
	artifact := l.artifact(t, environment.Config{}, &image, packages)
	l.Environment = artifact.Digest
	referrers := l.json(t, ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{artifact}})
	referrers.Annotations = map[string]string{ocispec.AnnotationRefName: "sha256-" + l.Image.Encoded()}
	return referrers
}

// artifact writes an environment with a config, and returns its manifest.
func (l *Layout) artifact(t testing.TB, config environment.Config, subject *ocispec.Descriptor, packages []Package) ocispec.Descriptor {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := Index(t, packages...)
	index := l.blob(t, environment.TypeIndex, enc.EncodeAll(raw, nil))
	l.Index = index.Digest
	config.Prefix, config.Index, config.Size = "/opt/conda", digest.FromBytes(raw), int64(len(raw))
	described := l.json(t, environment.TypeConfig, config)
	layers := []ocispec.Descriptor{index}
	for _, p := range packages {
		d := l.blob(t, pack.MediaType, p.Blob)
		d.Annotations = map[string]string{environment.BlobAnnotation: p.Device.Name()}
		layers = append(layers, d)
	}
	artifact := l.json(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: environment.Type,
		Config: described, Layers: layers, Subject: subject,
	})
	artifact.ArtifactType = environment.Type
	return artifact
}

// WriteStandalone writes an environment without an image, with the tag latest.
func WriteStandalone(t testing.TB, folder string, config environment.Config, packages ...Package) Layout {
	t.Helper()
	l := Layout{Folder: folder}
	d := l.artifact(t, config, nil, packages)
	l.write(t, "oci-layout", ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	l.Image, l.Environment = d.Digest, d.Digest
	d.Annotations = map[string]string{ocispec.AnnotationRefName: "latest"}
	l.write(t, "index.json", ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{d}})
	return l
}

// Name returns the name of the image for the command line.
func (l Layout) Name() string { return "ocidir://" + l.Folder + ":latest" }

// BlobPath returns the file of a blob.
func (l Layout) BlobPath(d digest.Digest) string {
	return filepath.Join(l.Folder, "blobs", "sha256", d.Encoded())
}

func (l Layout) blob(t testing.TB, mediaType string, b []byte) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	if err := os.MkdirAll(filepath.Dir(l.BlobPath(d.Digest)), 0o755); err != nil { //nolint:gosec // other users read it
		t.Fatal(err)
	}
	if err := os.WriteFile(l.BlobPath(d.Digest), b, 0o644); err != nil { //nolint:gosec // other users read it
		t.Fatal(err)
	}
	return d
}

func (l Layout) json(t testing.TB, mediaType string, v any) ocispec.Descriptor {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return l.blob(t, mediaType, b)
}

func (l Layout) write(t testing.TB, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Folder, name), b, 0o644); err != nil { //nolint:gosec // other users read it
		t.Fatal(err)
	}
}

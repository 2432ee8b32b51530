package conda_test

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/mount/environment"
)

func mounted(j *jobs.Job) { j.Recipe.Mount = true }

// TestMountedEnvironment checks that the image of a request with mount has an artifact that refers to
// it, that the image is the same as without, and that a second worker makes the same artifact.
func TestMountedEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var out lines
	plain, err := b.engine(t.TempDir()).Build(t.Context(), b.job(b.curl()), &out)
	if err != nil {
		t.Fatal(err)
	}
	var artifacts []string
	for range 2 {
		got, err := b.engine(t.TempDir()).Build(t.Context(), b.job(b.curl(), mounted), &out)
		if err != nil || got != plain {
			t.Fatalf("%s instead of %s: %v", got, plain, err)
		}
		artifacts = append(artifacts, b.artifact(plain, 2))
	}
	if artifacts[0] != artifacts[1] {
		t.Errorf("the artifacts differ: %v", artifacts)
	}
	if !strings.Contains(out.String(), "0 of 2 packages exist as blobs to mount") {
		t.Errorf("the log does not report the blobs:\n%s", out.String())
	}
}

// artifact returns the digest of the only environment that refers to an image, with a number of packages.
func (b *bench) artifact(image string, packages int) string {
	b.t.Helper()
	repo, err := name.NewRepository(b.images.Host+"/team/env", name.Insecure)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := registry.Referrers(repo.Digest(image))
	if err != nil {
		b.t.Fatal(err)
	}
	index, err := list.IndexManifest()
	if err != nil || len(index.Manifests) != 1 || index.Manifests[0].ArtifactType != environment.Type {
		b.t.Fatalf("%+v, %v", index, err)
	}
	d := index.Manifests[0].Digest
	doc, err := registry.Get(repo.Digest(d.String()))
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := environment.Parse(doc.Manifest)
	if err != nil || len(a.Blobs) != packages || string(a.Subject) != image {
		b.t.Fatalf("%+v, %v", a, err)
	}
	blobs := []digest.Digest{a.Index.Digest}
	for _, l := range a.Blobs {
		blobs = append(blobs, l.Digest)
	}
	for _, blob := range blobs {
		l, err := registry.Layer(repo.Digest(blob.String()))
		if err != nil {
			b.t.Fatal(err)
		}
		if there, err := l.Size(); err != nil || there == 0 {
			b.t.Errorf("%s has %d bytes: %v", blob, there, err)
		}
	}
	return d.String()
}

// TestMountRequiresNoSteps checks that an environment with a script that has to run is rejected.
func TestMountRequiresNoSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var out lines
	_, err := b.engine(t.TempDir()).Build(t.Context(), b.job(b.curl(), mounted, func(j *jobs.Job) { j.Recipe.ContainerFile = "RUN true\n" }), &out)
	if err == nil || !strings.Contains(err.Error(), "cannot be mounted") {
		t.Errorf("the build returned %v", err)
	}
}

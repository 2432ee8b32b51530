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

func standalone(j *jobs.Job) { j.Recipe.Format, j.Recipe.Source = "environment", nil }

// TestStandaloneEnvironment checks that an environment without an image has the tag of its target, and only the blobs of its
// packages, which a later image with mount uses.
func TestStandaloneEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir, reported := t.TempDir(), ""
	var out lines
	got, err := b.engine(dir).Build(t.Context(), b.job(b.curl(), standalone, func(j *jobs.Job) { j.Environment = func(d string) { reported = d } }), &out)
	if err != nil || got != reported {
		t.Fatalf("%s, reported %s, %v\n%s", got, reported, err, out.String())
	}
	repo, err := name.NewRepository(b.images.Host+"/team/env", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	tag := b.job(b.curl()).Target.GetTag()
	doc, err := registry.Get(repo.Tag(tag))
	if err != nil || doc.Digest.String() != got {
		t.Fatalf("the tag names %v, %v", doc, err)
	}
	a, err := environment.Parse(doc.Manifest)
	if err != nil || a.Subject != "" || len(a.Blobs) != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	if text := out.String(); !strings.Contains(text, "0 of 2 packages exist as blobs to mount") || strings.Contains(text, "layers") {
		t.Errorf("the log is\n%s", text)
	}
	out = lines{}
	image, err := b.engine(dir).Build(t.Context(), b.job(b.curl(), mounted), &out)
	if err != nil || !strings.Contains(out.String(), "2 of 2 packages exist as blobs to mount") {
		t.Errorf("%v\n%s", err, out.String())
	}
	b.artifact(image, 2)
	again, err := b.engine(t.TempDir()).Rebuild(t.Context(), b.job(b.curl(), standalone), &out)
	if err != nil || digest.FromBytes(again.Manifest).String() != got || digest.FromBytes(again.Config) != a.Config.Digest {
		t.Errorf("the environment is made again as %s, %v", again.Manifest, err)
	}
}

// TestStandaloneRequiresNoSteps checks that an environment with a script that has to run is rejected.
func TestStandaloneRequiresNoSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var out lines
	_, err := b.engine(t.TempDir()).Build(t.Context(), b.job(b.curl(), standalone, func(j *jobs.Job) { j.Recipe.ContainerFile = "RUN true\n" }), &out)
	if err == nil || !strings.Contains(err.Error(), "without format environment") {
		t.Errorf("the build returned %v", err)
	}
}

// TestKeptStandaloneEnvironment checks that an environment that is kept gets its name, and refers to its stored packages.
func TestKeptStandaloneEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var out lines
	got, err := b.engine(t.TempDir()).Build(t.Context(), b.job(b.curl(), standalone, func(j *jobs.Job) { j.Recipe.KeepPackages = true }), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	repo, err := name.NewRepository(b.images.Host+"/team/env", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := registry.Get(repo.Tag(b.job(b.curl()).Target.GetTag())); err != nil || doc.Digest.String() != got {
		t.Errorf("the tag names %v, %v", doc, err)
	}
	list, err := registry.Referrers(repo.Digest(got))
	if err != nil {
		t.Fatal(err)
	}
	index, err := list.IndexManifest()
	if err != nil || len(index.Manifests) != 1 || index.Manifests[0].ArtifactType != "application/vnd.slipway.packages.v1" {
		t.Errorf("%+v, %v", index, err)
	}
}

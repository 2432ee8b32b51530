package buildkit_test

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/soci"
)

// TestBuildKitSoci checks that the image of a recipe with soci has a SOCI index, also with a
// configuration on top, that it gets its tag only then, and that an image of small layers has none.
func TestBuildKitSoci(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Near: []string{"127.0.0.0/8"}})
	const large = "FROM BASE\nRUN head -c 12582912 /dev/urandom > /big\nRUN echo small > /small\n"
	indexed := func(id, file string, c *containerv1.ContainerConfig) jobs.Job {
		job := w.Job(id, file)
		job.Recipe.Soci, job.Recipe.Config = true, c
		return job
	}
	for id, c := range map[string]*containerv1.ContainerConfig{"b_1": nil, "b_2": {Env: []string{"A=b"}}} {
		made, log, err := w.Build(t, indexed(id, large, c))
		if err != nil {
			t.Fatal(err)
		}
		d := w.Pull(t, "made/here:"+id)
		if d.Digest.String() != made {
			t.Errorf("%s was pushed, %s was reported", d.Digest, made)
		}
		x, img := buildkittest.Contents(t, d)
		if len(x.Manifests) != 2 || x.Manifests[1].ArtifactType != soci.TypeIndex || x.Annotations["dev.slipway.build-id"] != id {
			t.Fatalf("the index is %+v", x)
		}
		m, err := img.Manifest()
		if err != nil || m.Annotations[soci.IndexAnnotation] != x.Manifests[1].Digest.String() {
			t.Errorf("%+v, %v", m, err)
		}
		index, err := d.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		found, err := index.Image(x.Manifests[1].Digest)
		if err != nil {
			t.Fatal(err)
		}
		z, err := found.Manifest()
		if err != nil || len(z.Layers) != 1 || !slices.ContainsFunc(m.Layers[:len(m.Layers)-1], func(l v1.Descriptor) bool {
			return l.Digest.String() == z.Layers[0].Annotations[soci.LayerAnnotation]
		}) {
			t.Errorf("%+v, %v", z, err)
		}
		if !strings.Contains(log.String(), "The SOCI index covers 1 layers") {
			t.Error("the log does not report the SOCI index")
		}
		requests := slices.DeleteFunc(w.To.Requests(), func(r string) bool { return !strings.HasPrefix(r, "PUT ") })
		if requests[len(requests)-1] != "PUT /v2/made/here/manifests/"+id {
			t.Errorf("the tag is not pushed last: %q", requests)
		}
	}
	if _, _, err := w.Build(t, indexed("b_3", "FROM BASE\nRUN echo small > /small\n", nil)); err != nil {
		t.Fatal(err)
	}
	if x, _ := buildkittest.Contents(t, w.Pull(t, "made/here:b_3")); len(x.Manifests) != 1 {
		t.Errorf("an image of small layers is %+v", x)
	}
}

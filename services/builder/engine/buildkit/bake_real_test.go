package buildkit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

func layer(location string, gz, tar []byte) *containerv1.Layer {
	size := int64(len(gz))
	return &containerv1.Layer{
		Location: location, GzipDigest: digest.FromBytes(gz).String(), TarDigest: digest.FromBytes(tar).String(), GzipSize: &size,
	}
}

// TestBuildKitFreezes checks that a frozen image has its configuration, and that it gets
// its tag only then.
func TestBuildKitFreezes(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{Near: []string{"127.0.0.0/8"}})
	sent, sentTar := testkit.Tar(t, "sent.txt", "with the request")
	linked, linkedTar := testkit.Tar(t, "linked.txt", "by its URL")
	other, otherTar := testkit.Tar(t, "other.txt", "for another machine")
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(linked) }))
	t.Cleanup(server.Close)
	w.Layers[digest.FromBytes(sent).String()] = sent
	frozen := func(id string, layers ...*containerv1.Layer) jobs.Job {
		job := w.Job(id, "FROM BASE\nENV A=old B=kept\nRUN echo built > /built.txt\n")
		job.Recipe.Config = &containerv1.ContainerConfig{Env: []string{"A=new"}, WorkingDir: "/work", Layers: layers}
		return job
	}
	made, _, err := w.Build(t, frozen("b_1", layer("data:", sent, sentTar), layer(server.URL+"/x.tar.gz", linked, linkedTar),
		layer(server.URL+"/x-arm64.tar.gz", other, otherTar)))
	if err != nil {
		t.Fatal(err)
	}
	d := w.Pull(t, "made/here:b_1")
	if d.Digest.String() != made {
		t.Errorf("%s was pushed, %s was told", d.Digest, made)
	}
	im, img := buildkittest.Contents(t, d)
	if len(im.Manifests) != 1 || im.Annotations["dev.slipway.build-id"] != "b_1" {
		t.Fatalf("the index is %+v", im)
	}
	checkFrozen(t, img)
	again, _, err := w.Build(t, frozen("b_2")) // all layers exist
	if err != nil || again == made {
		t.Errorf("without layers it is %s, %v", again, err)
	}
	_, _, err = w.Build(t, frozen("b_3", layer("data:", other, otherTar)))
	if err == nil {
		t.Error("a layer that nobody has was frozen")
	}
	wrong := layer(server.URL+"/x.tar.gz", other, otherTar) // the URL serves other bytes
	_, _, err = w.Build(t, frozen("b_4", wrong))
	if err == nil || errors.As(err, new(*fault.Error)) {
		t.Errorf("a layer with other bytes: %v", err)
	}
	if requests := w.To.Requests(); slices.Contains(requests, "PUT /v2/made/here/manifests/b_3") || slices.Contains(requests, "PUT /v2/made/here/manifests/b_4") {
		t.Error("an image that is not complete has its name")
	}
}

func checkFrozen(t *testing.T, img v1.Image) {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if env := strings.Join(cf.Config.Env, " "); !strings.Contains(env, "A=new") || !strings.Contains(env, "B=kept") || cf.Config.WorkingDir != "/work" {
		t.Errorf("the configuration is %+v", cf.Config)
	}
	all, err := img.Layers()
	if err != nil || len(all) != 4 || len(cf.RootFS.DiffIDs) != 4 {
		t.Fatalf("%d layers, %v", len(all), err)
	}
	for _, l := range all {
		if ok, err := partial.Exists(l); !ok || err != nil {
			t.Errorf("a layer is not there: %v", err)
		}
		if id, err := l.DiffID(); err != nil || !slices.Contains(cf.RootFS.DiffIDs, id) {
			t.Errorf("a layer is not what it is said to be: %v", err)
		}
	}
}

package e2e

import (
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// referring returns an artifact that refers to an image, like a signature.
func referring(t testing.TB, kind string, to partial.Describable) v1.Image {
	t.Helper()
	subject, err := partial.Descriptor(to)
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, "application/vnd.oci.image.manifest.v1+json"), types.MediaType("application/vnd."+kind)),
		static.NewLayer([]byte("signed by "+kind), types.MediaType("application/vnd."+kind)))
	if err != nil {
		t.Fatal(err)
	}
	signed, ok := mutate.Subject(artifact, *subject).(v1.Image)
	if !ok {
		t.Fatal("the descriptor is not an image")
	}
	return signed
}

// attach pushes an artifact that refers to an image.
func attach(t testing.TB, up *testkit.Registry, repo, kind string, img v1.Image) string {
	t.Helper()
	signed := referring(t, kind, img)
	d, err := signed.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(up.Host+"/"+repo+"@"+d.String(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, signed); err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestReferrersPassThrough(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	img := testkit.Image(t, "amd64", true)
	image := up.Push(t, "lib/tool:v1", img)
	signature := attach(t, up, "lib/tool", "signature", img)
	attach(t, up, "lib/tool", "sbom", img)
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		target := p.submit(map[string]any{"containerImage": image})
		base := v2(target)
		var x struct {
			Manifests []struct{ Digest, ArtifactType string }
		}
		r := request(t, http.MethodGet, base+"/referrers/"+digestOf(t, img), nil)
		mustJSON(t, r.body, &x)
		if len(x.Manifests) != 2 {
			t.Fatalf("referrers: %s", r.body)
		}
		r = request(t, http.MethodGet, base+"/referrers/"+digestOf(t, img)+"?artifactType=application/vnd.signature", nil)
		mustJSON(t, r.body, &x)
		if len(x.Manifests) != 1 || x.Manifests[0].Digest != signature || r.header.Get("OCI-Filters-Applied") != "artifactType" {
			t.Errorf("filtered: %s, %v", r.body, r.header)
		}
		// The list of referrers is not cached on the other replica, which must serve the
		// artifact nevertheless.
		for _, replica := range p.replicas {
			base := "http://" + replica + base[len(p.url):]
			m := request(t, http.MethodGet, base+"/manifests/"+signature, nil)
			var manifest struct{ Layers []struct{ Digest string } }
			mustJSON(t, m.body, &manifest)
			if b := request(t, http.MethodGet, base+"/blobs/"+manifest.Layers[0].Digest, nil); string(b.body) != "signed by signature" {
				t.Errorf("the signature's blob: %d %s", b.status, b.body)
			}
		}
	})
}

func TestDockerSchema1IsRefused(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v1+prettyjws")
		body := `{"schemaVersion":1,"name":"lib/tool","tag":"v1","architecture":"amd64","fsLayers":[{"blobSum":"` + sha([]byte("x")) + `"}],"history":[],"signatures":[]}`
		w.Header().Set("Docker-Content-Digest", sha([]byte(body)))
		_, _ = w.Write([]byte(body))
		return true
	})
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	r := request(t, http.MethodGet, v2(p.submit(map[string]any{"containerImage": image}))+"/manifests/v1", nil)
	if r.status != http.StatusBadRequest {
		t.Errorf("returned %d", r.status)
	}
	errorBody("UNSUPPORTED")(t, r)
}

// TestUnknownBlobCostsOneWalk requests a blob that no manifest refers to.
func TestUnknownBlobCostsOneWalk(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64", "s390x", "ppc64le"))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	base := v2(p.submit(map[string]any{"containerImage": image}))
	ask := func() int {
		return request(t, http.MethodGet, base+"/blobs/"+sha([]byte("nothing")), nil).status
	}
	if s := ask(); s != http.StatusNotFound {
		t.Fatalf("returned %d", s)
	}
	up.Requests()
	for range 20 {
		ask()
	}
	if n := len(up.Requests()); n > 0 {
		t.Errorf("the repeated request made %d upstream requests", n)
	}
}

package buildkit

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// fakeRegistry is a registry that returns what a test puts there, under any digest.
type fakeRegistry struct {
	remote.Registries
	manifest, blobs map[digest.Digest][]byte
}

func (s fakeRegistry) Manifest(_ context.Context, _ upstream.Repository, ref string, _ upstream.Access) (oci.Document, error) {
	raw, ok := s.manifest[digest.Digest(ref)]
	if !ok {
		return oci.Document{}, fault.NotFound.Newf("there is no %s", ref)
	}
	return oci.NewDocument(ocispec.MediaTypeImageManifest, raw), nil
}

func (s fakeRegistry) ReadBlob(_ context.Context, _ upstream.Repository, d digest.Digest, _ upstream.Access, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s.blobs[d])), nil
}

// newFakeRegistry returns a fakeRegistry with a cache of one layer.
func newFakeRegistry(t *testing.T) (s fakeRegistry, manifest, config, layer digest.Digest) {
	t.Helper()
	config, layer = digest.FromString("config"), digest.FromString("layer")
	raw, err := json.Marshal(ocispec.Manifest{
		Config: ocispec.Descriptor{Digest: config, Size: 6}, Layers: []ocispec.Descriptor{{Digest: layer, Size: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest = digest.FromBytes(raw)
	return fakeRegistry{
		manifest: map[digest.Digest][]byte{manifest: raw},
		blobs:    map[digest.Digest][]byte{config: []byte("config"), layer: []byte("layer")},
	}, manifest, config, layer
}

// TestCachesAreImportedByDigest checks that a cache is never imported by the tag that a
// build exports to.
func TestCachesAreImportedByDigest(t *testing.T) {
	t.Parallel()
	s, manifest, _, _ := newFakeRegistry(t)
	forged := digest.FromString("forged")
	s.manifest[forged] = s.manifest[manifest]
	for name, tc := range map[string]struct {
		digest string
		want   bool
	}{
		"none": {"", false}, "ours": {manifest.String(), true}, "gone": {digest.FromString("gone").String(), false},
		"other bytes": {forged.String(), false}, "a tag": {"latest", false}, "a path": {"sha256:../../x", false},
	} {
		job := jobs.Job{
			CacheDigest: tc.digest, Recipe: &buildv1.Recipe{},
			Target: &buildv1.Target{Registry: "hub.test", Repository: "team/app", CacheRepository: "cache.test/a"},
		}
		l := jobs.NewLogins(rightsService{}, "")
		keys, err := newKeyring(job, l, s, newSources(s, l, job))
		if err != nil {
			t.Fatal(err)
		}
		opt, stores := client.SolveOpt{FrontendAttrs: map[string]string{}}, map[string]content.Store{}
		if err := keys.addCache(t.Context(), &opt, stores, job, t.TempDir(), &lines{}); err != nil {
			t.Fatal(err)
		}
		imports := opt.FrontendAttrs["cache-imports"]
		if len(opt.CacheImports) > 0 || len(opt.CacheExports) != 1 || (len(stores) == 1) != tc.want || strings.Contains(imports, tc.digest) != (tc.want || tc.digest == "") {
			t.Errorf("%s: imports %v, %s", name, opt.CacheImports, imports)
		}
	}
}

// TestCachesAreVerified imports from a registry that returns other bytes.
func TestCachesAreVerified(t *testing.T) {
	t.Parallel()
	s, manifest, config, layer := newFakeRegistry(t)
	s.blobs[layer] = []byte("other")
	store, err := openCache(t.Context(), s, upstream.Repository{}, upstream.Access{}, manifest, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for d, want := range map[digest.Digest]string{
		manifest: string(s.manifest[manifest]), config: "config", layer: "", digest.FromString("beside"): "",
	} {
		got, err := content.ReadBlob(t.Context(), store, ocispec.Descriptor{Digest: d})
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", d, got, err)
		}
	}
}

// TestExportedCaches parses responses of a daemon.
func TestExportedCaches(t *testing.T) {
	t.Parallel()
	d := digest.FromString("x").String()
	for daemonError, want := range map[string]string{"": "", "{": "", `{"digest":"latest"}`: "", `{"digest":"` + d + `"}`: d} {
		if got := exportedCache(map[string]string{"cache.manifest": daemonError}); got != want {
			t.Errorf("%q is read as %q", daemonError, got)
		}
	}
}

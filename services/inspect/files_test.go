package inspect_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// gzipped returns a layer with one file.
func gzipped(t testing.TB, path, content string) v1.Layer {
	t.Helper()
	gz, _ := testkit.Tar(t, path, content)
	return static.NewLayer(gz, types.OCILayer)
}

func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(testkit.Image(t, "amd64", true), layers...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digestOf(t testing.TB, l v1.Layer) string {
	t.Helper()
	d, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func (r fixture) files(ctx context.Context, image, layer, token string, change ...func(*inspectv1.ListLayerFilesRequest)) (*inspectv1.ListLayerFilesResponse, error) {
	req := &inspectv1.ListLayerFilesRequest{Image: &inspectv1.ImageQuery{ContainerImage: image, PlatformAccessToken: token}, Layer: layer}
	for _, f := range change {
		f(req)
	}
	return r.ListLayerFiles(ctx, req)
}

func paths(res *inspectv1.ListLayerFilesResponse) string {
	var out []string
	for _, f := range res.GetFiles() {
		out = append(out, f.GetPath())
	}
	return strings.Join(out, " ")
}

func TestListLayerFiles(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	layer, other := gzipped(t, "usr/bin/tool", "#!/bin/sh"), gzipped(t, "usr/bin/arm", "#!/bin/sh -e")
	index := v1.ImageIndex(empty.Index)
	for arch, l := range map[string]v1.Layer{"amd64": layer, "arm64": other} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: imageOf(t, l), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	open, private := r.open.Push(t, "lib/tool:v1", index), r.closed.Push(t, "team/tool:v1", imageOf(t, layer))
	for name, c := range map[string]struct {
		image, layer, token, platform, want string
	}{
		"of the default platform": {open, digestOf(t, layer), "", "", "usr/bin/tool"},
		"of a platform":           {open, digestOf(t, other), "", "linux/arm64", "usr/bin/arm"},
		"with a user's own login": {private, digestOf(t, layer), "token", "", "usr/bin/tool"},
	} {
		got, err := r.files(t.Context(), c.image, c.layer, c.token, func(q *inspectv1.ListLayerFilesRequest) {
			if c.platform != "" {
				q.Platform = proto.String(c.platform)
			}
		})
		if err != nil || paths(got) != c.want || got.GetDigest() != c.layer || got.GetEntries() != 1 || got.GetSize() == 0 || got.Matching != nil || got.NextPageToken != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		} else if f := got.GetFiles()[0]; f.GetType() != "file" || f.GetMode() != "0755" || f.GetSize() != got.GetUnpacked() || f.LinkTarget != nil {
			t.Errorf("%s: %v", name, f)
		}
	}
	got, err := r.files(t.Context(), open, digestOf(t, layer), "", func(q *inspectv1.ListLayerFilesRequest) { q.Filter = "no such" })
	if err != nil || got.Matching == nil || got.GetMatching() != 0 || len(got.GetFiles()) != 0 || got.GetEntries() != 1 {
		t.Errorf("a filter without matches: %v, %v", got, err)
	}
}

// TestListLayerFilesRefuses checks that only layers of images that the caller may read are
// listed, and no layers that are too large or not archives.
func TestListLayerFilesRefuses(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	layer := gzipped(t, "a", "b")
	odd, text := static.NewLayer([]byte("{}"), "application/vnd.example"), static.NewLayer(bytes.Repeat([]byte("no archive "), 100), types.OCILayer)
	foreign, err := mutate.Append(testkit.Image(t, "amd64", true), mutate.Addendum{Layer: gzipped(t, "f", "g"), URLs: []string{"https://example.org/layer"}})
	if err != nil {
		t.Fatal(err)
	}
	img := imageOf(t, layer, odd, text)
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	image, private := r.open.Push(t, "lib/tool:v1", img), r.closed.Push(t, "team/tool:v1", imageOf(t, layer))
	r.open.Push(t, "lib/tool:other", imageOf(t, gzipped(t, "other", "image")))
	none := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		image, layer string
		kind         fault.Kind
		says         string
	}{
		"no layer":                       {image, "", fault.Invalid, "layer is missing"},
		"no digest":                      {image, "sha256:aa", fault.Invalid, "layer must be a digest"},
		"a layer that is not there":      {image, none, fault.NotFound, "has no layer"},
		"a layer of another image":       {image, digestOf(t, gzipped(t, "other", "image")), fault.NotFound, "has no layer"},
		"another blob of the image":      {image, config.String(), fault.NotFound, "has no layer"},
		"a layer that is no layer":       {image, digestOf(t, odd), fault.Invalid, "application/vnd.example"},
		"a layer that is no archive":     {image, digestOf(t, text), fault.Invalid, "is damaged"},
		"a layer that lies elsewhere":    {r.open.Push(t, "lib/foreign:v1", foreign), digestOf(t, gzipped(t, "f", "g")), fault.Invalid, "outside the image's registry"},
		"a layer that is too large":      {r.pushSized(t, "lib/large", gzipped(t, "l", "m"), limits.ListedPacked+1), digestOf(t, gzipped(t, "l", "m")), fault.Invalid, "of up to 2048 MiB"},
		"an image that is not there":     {r.open.Host + "/lib/none:v1", none, fault.NotFound, r.open.Host},
		"a private image, without login": {private, digestOf(t, layer), fault.Unauthenticated, r.closed.Host},
		"no image":                       {"", none, fault.Invalid, "containerImage is missing"},
	} {
		got, err := r.files(t.Context(), c.image, c.layer, "")
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, %v; want %v, %q", name, got, err, c.kind, c.says)
		}
	}
	if _, err := r.files(t.Context(), image, digestOf(t, layer), "", func(q *inspectv1.ListLayerFilesRequest) { q.Max = -1 }); !errors.Is(err, fault.Invalid) {
		t.Errorf("a negative max: %v", err)
	}
}

// pushSized pushes an image whose manifest has a given size for its layer.
func (r fixture) pushSized(t testing.TB, repository string, l v1.Layer, size int64) string {
	t.Helper()
	img := imageOf(t, l)
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	is, err := l.Size()
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf(`,"digest":"%s"`, digestOf(t, l))
	changed := bytes.Replace(raw, fmt.Appendf(nil, `"size":%d%s`, is, digest), fmt.Appendf(nil, `"size":%d%s`, size, digest), 1)
	if bytes.Equal(raw, changed) {
		t.Fatalf("the manifest is %s", raw)
	}
	r.open.Push(t, repository+":v1", img)
	r.open.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		mine := strings.HasPrefix(req.URL.Path, "/v2/"+repository+"/manifests/")
		if mine {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			_, _ = w.Write(changed)
		}
		return mine
	})
	return r.open.Host + "/" + repository + ":v1"
}

// TestHostileLayers checks that a layer is verified against the digest and the size in the
// manifest.
func TestHostileLayers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	layer := gzipped(t, "a", "b")
	image := r.open.Push(t, "lib/tool:v1", imageOf(t, layer))
	good, _ := testkit.Tar(t, "a", "b")
	other, _ := testkit.Tar(t, "a", "c")
	for name, answer := range map[string][]byte{
		"another layer": other, "half of it": good[:len(good)/2], "more than it": append(slices.Clone(good), "more"...), "nothing": nil,
		"another layer as long": append(slices.Clone(other), make([]byte, max(0, len(good)-len(other)))...),
	} {
		r.open.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			mine := strings.HasSuffix(req.URL.Path, digestOf(t, layer))
			if mine {
				_, _ = w.Write(answer)
			}
			return mine
		})
		if got, err := r.files(t.Context(), image, digestOf(t, layer), ""); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "does not have that digest") {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	r.open.Intercept(nil)
	if got, err := r.files(t.Context(), image, digestOf(t, layer), ""); err != nil || paths(got) != "a" {
		t.Errorf("the correct layer: %v, %v", got, err)
	}
	broken := r.pushSized(t, "lib/longer", layer, 1<<20)
	if got, err := r.files(t.Context(), broken, digestOf(t, layer), ""); !errors.Is(err, fault.Invalid) {
		t.Errorf("a layer shorter than its size: %v, %v", got, err)
	}
}

// TestListingsAreCached checks that a layer is read once but the manifest with each call, so that
// a caller who may no longer read the image does not see its files.
func TestListingsAreCached(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	layer := gzipped(t, "a", "b")
	image := r.closed.Push(t, "team/tool:v1", imageOf(t, layer))
	for _, want := range []bool{true, false} {
		r.closed.Requests()
		if got, err := r.files(t.Context(), image, digestOf(t, layer), "token"); err != nil || paths(got) != "a" {
			t.Errorf("%v, %v", got, err)
		}
		asked := strings.Join(r.closed.Requests(), " ")
		if strings.Contains(asked, "/blobs/"+digestOf(t, layer)) != want || !strings.Contains(asked, "/manifests/v1") {
			t.Errorf("the requests are %s", asked)
		}
	}
	if got, err := r.files(t.Context(), image, digestOf(t, layer), ""); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("without the login: %v, %v", got, err)
	}
}

// TestListingsAreCharged checks that listings are charged as pulls.
func TestListingsAreCharged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 2)
	layer := gzipped(t, "a", "b")
	image := r.open.Push(t, "lib/tool:v1", imageOf(t, layer))
	for range 2 {
		if _, err := r.files(t.Context(), image, digestOf(t, layer), ""); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.files(t.Context(), image, digestOf(t, layer), ""); !errors.Is(err, fault.Exhausted) {
		t.Errorf("above the limit: %v", err)
	}
}

// TestLargeListingsAreCharged checks that a large layer is charged as several pulls.
func TestLargeListingsAreCharged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 4)
	layer := gzipped(t, "a", "b")
	image := r.pushSized(t, "lib/large", layer, 4*limits.ListedCharge)
	if _, err := r.files(t.Context(), image, digestOf(t, layer), ""); !errors.Is(err, fault.Exhausted) {
		t.Errorf("a layer that costs five pulls: %v", err)
	}
}

// TestUnpackedIsCharged checks that the unpacked size of a layer is charged while it is read, and
// that reading stops at the caller's limit.
func TestUnpackedIsCharged(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	const frame = 3 * 512 // the header of the file, and the two blocks that end the archive
	archive := tar.NewWriter(z)
	err = errors.Join(
		archive.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: limits.ListedCharge - frame}),
		func() error { _, err := archive.Write(make([]byte, limits.ListedCharge-frame)); return err }(),
		archive.Close(), z.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	layer := static.NewLayer(packed.Bytes(), types.OCILayer)
	for pulls, paid := range map[int]bool{2: true, 1: false} {
		r := newFixture(t, true, pulls)
		image := r.open.Push(t, "lib/zeros:v1", imageOf(t, layer))
		got, err := r.files(t.Context(), image, digestOf(t, layer), "")
		if paid != (err == nil && paths(got) == "zeros") || !paid && !errors.Is(err, fault.Exhausted) {
			t.Errorf("with %d pulls it is %v, %v", pulls, got, err)
		}
		if _, err := r.files(t.Context(), image, digestOf(t, layer), ""); !errors.Is(err, fault.Exhausted) {
			t.Errorf("with none: %v", err)
		}
	}
}

// TestFilesOfIssuedNames lists an uploaded layer and a layer of an included image, but not a
// layer with an address of its own.
func TestFilesOfIssuedNames(t *testing.T) {
	t.Parallel()
	known := plans{of: map[string]*containerv1.Plan{}, layers: map[string][]byte{}}
	r := newFixtureWith(t, true, 1000, func(d *inspect.Deps) { d.Containers, d.Host = known, "slipway.example.org" })
	base, included, linked := gzipped(t, "base", "1"), gzipped(t, "included", "2"), gzipped(t, "linked", "3")
	gz, _ := testkit.Tar(t, "own", "4")
	own := static.NewLayer(gz, types.OCILayer)
	known.layers[digestOf(t, own)] = gz
	r.open.Push(t, "lib/tool:v1", imageOf(t, base))
	r.closed.Push(t, "team/more:v1", imageOf(t, included))
	added := func(l v1.Layer, location string, from *containerv1.LayerOrigin) *containerv1.Layer {
		size, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		return &containerv1.Layer{Location: location, GzipDigest: digestOf(t, l), TarDigest: digestOf(t, l), GzipSize: &size, IncludedFrom: from}
	}
	known.of["name"] = &containerv1.Plan{
		Source: &containerv1.Source{Registry: r.open.Host, Repository: "lib/tool", Reference: "v1"}, Platform: "linux/amd64", Name: "lib/tool", Reference: "v1",
		Config: &containerv1.ContainerConfig{Layers: []*containerv1.Layer{
			added(own, "data:", nil), added(linked, "https://example.org/layer.tar.gz", nil),
			added(included, "", &containerv1.LayerOrigin{Registry: r.closed.Host, Repository: "team/more", Reference: "v1", Identity: &platformv1.Identity{Endpoint: "e", UserId: 1}}),
		}},
	}
	const name = "slipway.example.org/wt/name/lib/tool:v1"
	for layer, want := range map[v1.Layer]string{base: "base", own: "own", included: "included"} {
		if got, err := r.files(t.Context(), name, digestOf(t, layer), ""); err != nil || paths(got) != want {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
	if got, err := r.files(t.Context(), name, digestOf(t, linked), ""); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "an address of its own") {
		t.Errorf("linked: %v, %v", got, err)
	}
	if got, err := r.files(t.Context(), "slipway.example.org/wt/gone/lib/tool:v1", digestOf(t, own), ""); !errors.Is(err, fault.NotFound) {
		t.Errorf("expired: %v, %v", got, err)
	}
}

// GetLayer returns a layer in chunks of one byte.
func (p plans) GetLayer(_ context.Context, req *containerv1.GetLayerRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error) {
	if raw, ok := p.layers[req.GetGzipDigest()]; ok {
		return &parts{rest: raw}, nil
	}
	return nil, fault.NotFound.Newf("There is no such layer")
}

type parts struct {
	grpc.ClientStream
	rest []byte
}

// Recv returns the next byte.
func (p *parts) Recv() (*containerv1.GetLayerResponse, error) {
	if len(p.rest) == 0 {
		return nil, io.EOF
	}
	m := &containerv1.GetLayerResponse{Chunk: p.rest[:1]}
	p.rest = p.rest[1:]
	return m, nil
}

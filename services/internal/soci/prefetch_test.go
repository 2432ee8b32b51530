package soci_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// entry is an entry of a tar: a file with a size, or a link.
type entry struct {
	name, link string
	kind       byte
	size       int64
}

func file(name string) entry              { return entry{name: name, kind: tar.TypeReg, size: 1} }
func large(name string, size int64) entry { return entry{name: name, kind: tar.TypeReg, size: size} }
func link(name, target string) entry      { return entry{name: name, kind: tar.TypeSymlink, link: target} }
func hard(name, target string) entry      { return entry{name: name, kind: tar.TypeLink, link: target} }
func folder(name string) entry            { return entry{name: name + "/", kind: tar.TypeDir} }
func described(i int, t string) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: t, Digest: digest.FromString(fmt.Sprint("layer ", i)), Size: limits.ZtocLayer}
}

// toc returns the encoded zTOC of a tar.
func toc(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Size: e.size, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, e.size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := ztoc.FromTar(&out)
	if err != nil {
		t.Fatal(err)
	}
	return z.Marshal(soci.Tool)
}

// prefetch looks up paths in layers, lowest first.
func prefetch(t *testing.T, layers [][]entry, paths ...string) soci.Prefetched {
	t.Helper()
	var p soci.Prefetch
	for i, l := range layers {
		if err := p.Add(described(i, ocispec.MediaTypeImageLayer), toc(t, l...), true); err != nil {
			t.Fatal(err)
		}
	}
	out, err := p.Resolve(paths)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPrefetchLookup checks in which layer a path is found, or why it is not.
func TestPrefetchLookup(t *testing.T) {
	t.Parallel()
	const none, noFile = "the image has no such file", "it is not a file"
	for name, c := range map[string]struct {
		layers [][]entry
		path   string
		want   int
		reason string
	}{
		"the topmost layer":                {layers: [][]entry{{file("a/b")}, {file("a/b")}, {file("c")}}, path: "/a/b", want: 1},
		"a name with a dot":                {layers: [][]entry{{file("./a/b")}}, path: "/a/b"},
		"an absolute name":                 {layers: [][]entry{{file("/a/b")}}, path: "/a/b"},
		"no file":                          {layers: [][]entry{{file("a/b")}}, path: "/a/c", reason: none},
		"a directory":                      {layers: [][]entry{{folder("a"), file("a/b")}}, path: "/a", reason: noFile},
		"the root":                         {layers: [][]entry{{file("a")}}, path: "/", reason: noFile},
		"below a file":                     {layers: [][]entry{{file("a")}}, path: "/a/b", reason: "a part of the path is not a directory"},
		"a pipe":                           {layers: [][]entry{{{name: "a", kind: tar.TypeFifo}}}, path: "/a", reason: noFile},
		"deleted":                          {layers: [][]entry{{file("a/b")}, {file("a/.wh.b")}}, path: "/a/b", reason: none},
		"deleted, and made again":          {layers: [][]entry{{file("a/b")}, {file("a/.wh.b")}, {file("a/b")}}, path: "/a/b", want: 2},
		"deleted and made in one layer":    {layers: [][]entry{{file("a/b")}, {file("a/.wh.b"), file("a/b")}}, path: "/a/b", want: 1},
		"a deleted directory":              {layers: [][]entry{{file("a/b/c")}, {file(".wh.a")}}, path: "/a/b/c", reason: none},
		"an opaque directory":              {layers: [][]entry{{file("a/b/c")}, {file("a/.wh..wh..opq")}}, path: "/a/b/c", reason: none},
		"a file in an opaque directory":    {layers: [][]entry{{file("a/b")}, {file("a/.wh..wh..opq"), file("a/b")}}, path: "/a/b", want: 1},
		"an opaque root":                   {layers: [][]entry{{file("a/b")}, {file(".wh..wh..opq")}}, path: "/a/b", reason: none},
		"a directory that became a file":   {layers: [][]entry{{file("a/b")}, {file("a")}, {folder("a")}}, path: "/a/b", reason: none},
		"a relative link":                  {layers: [][]entry{{file("a/b")}, {link("a/c", "b")}}, path: "/a/c"},
		"a link upwards":                   {layers: [][]entry{{file("lib/b")}, {link("a/c", "../lib/./b")}}, path: "/a/c"},
		"a link above the root":            {layers: [][]entry{{file("b")}, {link("a/c", "../../../b")}}, path: "/a/c"},
		"an absolute link":                 {layers: [][]entry{{file("a/b")}, {link("c", "/a/b")}}, path: "/c"},
		"a link to a directory":            {layers: [][]entry{{folder("usr/lib"), link("lib", "usr/lib")}, {file("usr/lib/x")}}, path: "/lib/x", want: 1},
		"a link to a file that is missing": {layers: [][]entry{{link("a", "b")}}, path: "/a", reason: none},
		"a loop":                           {layers: [][]entry{{link("a", "b"), link("b", "a")}}, path: "/a", reason: "it has too many links"},
		"a long link":                      {layers: [][]entry{{link("a", strings.Repeat("b/", 3000))}}, path: "/a", reason: "a path that it is a link to is too long"},
		"a hard link":                      {layers: [][]entry{{file("x")}, {file("a/b"), hard("c", "a/b")}, {file("y")}}, path: "/c", want: 1},
		"a hard link to a replaced file":   {layers: [][]entry{{file("a"), hard("c", "a")}, {file("a")}}, path: "/c", want: 0},
	} {
		got := prefetch(t, c.layers, c.path)
		if c.reason != "" {
			if diff := cmp.Diff([]soci.Missing{{Path: c.path, Reason: c.reason}}, got.Missing); diff != "" || len(got.Artifacts) > 0 {
				t.Errorf("%s: %s", name, diff)
			}
			continue
		}
		if len(got.Missing) > 0 || len(got.Artifacts) != 1 || got.Artifacts[0].Layer != described(c.want, "").Digest {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPrefetchArtifacts checks the spans, the layers without a zTOC and those that are unknown.
func TestPrefetchArtifacts(t *testing.T) {
	t.Parallel()
	const span = ztoc.SpanSize
	big := []entry{large("a", span), large("b", span), large("c", 3*span), file("d"), file("e")}
	var p soci.Prefetch
	small := described(1, ocispec.MediaTypeImageLayerGzip)
	for _, err := range []error{
		p.Add(described(0, ocispec.MediaTypeImageLayer), toc(t, big...), true),
		p.Add(small, toc(t, file("small"), file("hidden")), false),
		p.Add(described(2, ocispec.MediaTypeImageLayerZstd), nil, false),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.Resolve([]string{"/e", "/a", "/small", "/d", "/none", "/d", "/b"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Files != 4 || got.Whole != 1 || len(got.Missing) != 1 || !slices.Equal(got.Unknown, []digest.Digest{described(2, "").Digest}) {
		t.Errorf("%+v", got)
	}
	const want = `{"version":"1.0","prefetch_spans":[{"start_span":0,"end_span":2},{"start_span":5,"end_span":5}]}`
	if len(got.Artifacts) != 1 || string(got.Artifacts[0].Document.Bytes) != want {
		t.Errorf("%+v", got.Artifacts)
	}
	log := strings.Join(got.Log(), "\n")
	for _, text := range []string{"The path /none is not prefetched: the image has no such file", described(2, "").Digest.String(), "4 files are prefetched, from 1 layers; 1 are in layers that are downloaded as a whole, and 1 were not found"} {
		if !strings.Contains(log, text) {
			t.Errorf("the log lacks %q:\n%s", text, log)
		}
	}
	if again, err := p.Resolve([]string{"/b", "/small", "/a", "/none", "/d", "/e"}); err != nil || !cmp.Equal(again, got) {
		t.Errorf("in another order: %+v, %v", again, err)
	}
	if err := p.Add(small, []byte("no zTOC"), true); !errors.Is(err, ztoc.ErrInvalid) {
		t.Errorf("a malformed zTOC: %v", err)
	}
}

// TestEnablePrefetch checks that the SOCI index lists prefetch artifacts behind the zTOCs.
func TestEnablePrefetch(t *testing.T) {
	t.Parallel()
	amd64 := ocispec.Platform{OS: "linux", Architecture: "amd64"}
	layer := described(0, ocispec.MediaTypeImageLayer)
	image := manifest(t, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, layer)
	found := prefetch(t, [][]entry{{file("a")}}, "/a")
	ztocs := []soci.Ztoc{{Layer: layer, Digest: digest.FromString("ztoc"), Size: 4}}
	got, err := soci.Enable(image, image, amd64, ztocs, found.Artifacts...)
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(got.Index.Bytes, &m); err != nil || len(m.Layers) != 2 {
		t.Fatalf("%s, %v", got.Index.Bytes, err)
	}
	doc := found.Artifacts[0].Document
	want := ocispec.Descriptor{MediaType: soci.TypePrefetch, Digest: doc.Digest, Size: int64(len(doc.Bytes)), Annotations: map[string]string{soci.LayerAnnotation: layer.Digest.String()}}
	if diff := cmp.Diff(want, m.Layers[1]); diff != "" {
		t.Error(diff)
	}
	if !soci.IsRoot(got.Root, got.Manifest, amd64) {
		t.Error("the index is not that of its manifest")
	}
}

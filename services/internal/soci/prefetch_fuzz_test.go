package soci_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// FuzzPrefetch checks that the lookup of a path in any two layers ends, with a reason or with spans that the layer has.
func FuzzPrefetch(f *testing.F) {
	for _, name := range []string{"a/b", "a/.wh.b", "./a"} {
		f.Add(name, "a", byte(tar.TypeReg), "", "b", byte(tar.TypeSymlink), "../a/b", "/a/b")
	}
	f.Add("x", "x", byte(tar.TypeLink), "y", "y", byte(tar.TypeSymlink), "x", "/y")
	f.Fuzz(func(t *testing.T, low, high string, kind byte, link, other string, otherKind byte, otherLink, path string) {
		encode := func(entries ...tar.Header) []byte {
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			for _, h := range entries {
				if err := w.WriteHeader(&h); err != nil {
					t.Skip()
				}
			}
			if err := w.Close(); err != nil {
				t.Skip()
			}
			z, err := ztoc.FromTar(&out)
			if err != nil {
				t.Skip()
			}
			return z.Marshal(soci.Tool)
		}
		var p soci.Prefetch
		for i, raw := range [][]byte{
			encode(tar.Header{Name: low, Typeflag: tar.TypeReg}),
			encode(tar.Header{Name: high, Typeflag: kind, Linkname: link}, tar.Header{Name: other, Typeflag: otherKind, Linkname: otherLink}),
		} {
			if err := p.Add(described(i, ocispec.MediaTypeImageLayer), raw, true); err != nil && !errors.Is(err, ztoc.ErrInvalid) {
				t.Fatal(err)
			}
		}
		got, err := p.Resolve([]string{path})
		if err != nil || got.Files+len(got.Missing) != 1 || got.Files != len(got.Artifacts) {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, a := range got.Artifacts {
			var spans struct {
				Spans []map[string]int `json:"prefetch_spans"`
			}
			if err := json.Unmarshal(a.Document.Bytes, &spans); err != nil || len(spans.Spans) != 1 || spans.Spans[0]["end_span"] != 0 {
				t.Fatalf("%s, %v", a.Document.Bytes, err)
			}
		}
	})
}

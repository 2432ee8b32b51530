package bundle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

// newTestLayout returns a layout and a function that stores a document.
func newTestLayout(t *testing.T) (l *layout, put func(mediaType string, doc any) ocispec.Descriptor) {
	t.Helper()
	l, err := createLayout(filepath.Join(t.TempDir(), "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, func(mediaType string, doc any) ocispec.Descriptor {
		t.Helper()
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.putBytes(mediaType, raw)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// writeTestIndex writes an index.json without the checks of the program.
func writeTestIndex(t *testing.T, l *layout, entries []ocispec.Descriptor) {
	t.Helper()
	raw, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.path, indexFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRecordBounds checks that a bundle has one record with valid digests.
func TestRecordBounds(t *testing.T) {
	t.Parallel()
	l, _ := newTestLayout(t)
	d, err := record{Requests: []request{}}.write(l)
	if err != nil {
		t.Fatal(err)
	}
	writeTestIndex(t, l, []ocispec.Descriptor{d})
	c, err := openContent([]string{l.path})
	if err != nil || len(c.records) != 1 || c.documents == 0 {
		t.Fatalf("one record: %+v, %v", c, err)
	}
	c.close()
	writeTestIndex(t, l, []ocispec.Descriptor{d, d})
	if _, err := openContent([]string{l.path}); err == nil || !strings.Contains(err.Error(), "several records") {
		t.Errorf("two records: %v", err)
	}
	many := make([]digest.Digest, limits.BundleDigests+1)
	for name, bad := range map[string]record{
		"digest":  {Digests: []digest.Digest{"sha256:x"}},
		"have":    {Have: []digest.Digest{"../x"}},
		"name":    {Names: map[string]digest.Digest{"a": ""}},
		"request": {Requests: []request{{Digest: "x"}}},
		"names":   {Requests: make([]request, limits.BundleNames+1)},
		"digests": {Digests: many},
	} {
		if _, err := bad.write(l); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
	if _, err := parseRecord([]byte(`{"have":["sha256:x"]}`)); err == nil {
		t.Error("an invalid digest was accepted")
	}
}

// TestDepth checks that a chain of indexes has a bound, in whichever order the bundle lists them.
func TestDepth(t *testing.T) {
	t.Parallel()
	l, put := newTestLayout(t)
	config := put(ocispec.MediaTypeImageConfig, map[string]string{"os": "linux", "architecture": "amd64"})
	chain := []ocispec.Descriptor{put(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config})}
	for range limits.BundleDepth + 1 {
		chain = append(chain, put(ocispec.MediaTypeImageIndex, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: chain[len(chain)-1:]}))
	}
	for n, ok := range map[int]bool{len(chain) - 1: true, len(chain): false} {
		writeTestIndex(t, l, chain[:n])
		c, err := openContent([]string{l.path})
		if (err == nil) != ok {
			t.Errorf("a chain of %d: %v", n, err)
		}
		if err == nil {
			c.close()
		}
	}
}

// TestClosureBound checks that listing a bundle has a bound, and that images with the same manifest are
// read once.
func TestClosureBound(t *testing.T) {
	t.Parallel()
	l, put := newTestLayout(t)
	config := put(ocispec.MediaTypeImageConfig, map[string]string{"os": "linux", "architecture": "amd64"})
	root := put(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config})
	var entries []ocispec.Descriptor
	for i := range 3 {
		d := root
		d.Annotations = map[string]string{ocispec.AnnotationRefName: fmt.Sprintf("quay.io/lab/tool:%d", i)}
		entries = append(entries, d, d)
	}
	writeTestIndex(t, l, entries)
	c, err := openContent([]string{l.path})
	if err != nil || len(c.images) != 3 {
		t.Fatalf("got %+v, %v", c, err)
	}
	defer c.close()
	s := sizes{content: c, steps: maxSteps - 2}
	for range 3 {
		if got, err := s.of(root.Digest); err != nil || got.bytes != root.Size+config.Size || len(got.platforms) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	s = sizes{content: c, steps: maxSteps}
	if _, err := s.of(root.Digest); err == nil || !strings.Contains(err.Error(), "share too many manifests") {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestShortValues checks that lists of very many short values are not decoded.
func TestShortValues(t *testing.T) {
	t.Parallel()
	list := func(of string, n int) string { return "[" + strings.Repeat(of+",", n) + of + "]" }
	for _, text := range []string{
		`{"requests":` + list("{}", limits.BundleNames) + `}`, `{"digests":` + list(`""`, limits.BundleDigests) + `}`, `{"have":` + list(`""`, limits.BundleDigests) + `}`,
	} {
		if _, err := parseRecord([]byte(text)); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	if _, err := parseIndex([]byte(`{"manifests":` + list("{}", limits.BundleManifests) + `}`)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the index: %v", err)
	}
}

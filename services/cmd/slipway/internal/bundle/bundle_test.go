package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ubuntu":                                        "docker.io/library/ubuntu:latest",
		"ubuntu:24.04":                                  "docker.io/library/ubuntu:24.04",
		"docker://quay.io/a/b:1":                        "quay.io/a/b:1",
		"oras://localhost:9090/a/b:1":                   "localhost:9090/a/b:1",
		"h.example/wt/0123456789ab/a/b:1":               "h.example/a/b:1",
		"h.example/a@sha256:" + strings.Repeat("a", 64): "h.example/a@sha256:" + strings.Repeat("a", 64),
		"h.example/../b:1":                              "",
		"ocidir:///etc:x":                               "",
		"":                                              "",
		"a b":                                           "",
		"h.example/a:" + strings.Repeat("x", 2000): "",
	} {
		n, err := parseName(in)
		if got := n.withoutToken().full; err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q is %q, %v, want %q", in, got, err, want)
		}
	}
}

// TestRepositories checks paths of images that have the same path at two registries.
func TestRepositories(t *testing.T) {
	t.Parallel()
	c := &content{}
	for i, full := range []string{"docker.io/library/ubuntu:1", "ghcr.io/a/b:1", "localhost:5000/a/b:1", "quay.io/a/b:2"} {
		n, err := parseName(full)
		if err != nil {
			t.Fatal(err)
		}
		c.images = append(c.images, image{n, ocispec.Descriptor{Digest: digest.FromString(string(rune(i)))}})
	}
	repos, at := c.repositories()
	for full, want := range map[string]string{
		"docker.io/library/ubuntu:1": "library/ubuntu:1", "ghcr.io/a/b:1": "a/b:1", "localhost:5000/a/b:1": "localhost_5000/a/b:1", "quay.io/a/b:2": "a/b:2",
	} {
		path, tag, _ := strings.Cut(want, ":")
		if at[full] != want || repos[path] == nil || repos[path].tags[tag] == "" {
			t.Errorf("%s is at %s, want %s", full, at[full], want)
		}
	}
	if repos["ubuntu"] == nil || len(repos["a/b"].tags) != 2 {
		t.Errorf("the repositories are %v", repos)
	}
}

// TestNextflowConfig checks that names of a bundle cannot add anything to a configuration.
func TestNextflowConfig(t *testing.T) {
	t.Parallel()
	c := &content{records: []record{{Requests: []request{
		{Name: "A:B", Process: true, Image: "x"},
		{Name: "A' } } System.exit(1) //", Process: true, Image: "x"},
		{Name: "two\nlines", Image: "x"},
		{Name: "C", Process: true, Image: "bad"},
		{Name: "D", Process: true, Image: "unknown"},
	}}, {Requests: []request{{Name: "A:B", Process: true, Image: "y"}}}}}
	got := c.nextflowConfig(map[string]string{"x": "h/x:1", "y": "h/y:1", "bad": "h/x:1'\n"}, "", false)
	want := `// Written by slipway bundle. Use it with: nextflow run -c THIS_FILE -offline
wave.enabled = false
process {
    withName: 'A:B' { container = 'h/y:1' }
}
// Containers of other inputs:
// A' } } System.exit(1) //: h/x:1
// two lines: h/x:1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPut checks that a blob has its name only if it is complete.
func TestPut(t *testing.T) {
	t.Parallel()
	l, err := createLayout(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	d := ocispec.Descriptor{Digest: digest.FromString("content"), Size: 7}
	if _, err := createLayout(l.path); err == nil || !strings.Contains(err.Error(), "another slipway bundle is writing to the folder") {
		t.Errorf("a second writer: %v", err)
	}
	for _, wrong := range []string{"", "conten", "contenT", "contents"} {
		if err := l.put(d, strings.NewReader(wrong)); err == nil || l.has(d) {
			t.Errorf("%q was stored, %v", wrong, err)
		}
	}
	if err := l.put(d, strings.NewReader("content")); err != nil || !l.has(d) {
		t.Errorf("the blob was not stored: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(l.path, partial)); err != nil || len(entries) != 0 {
		t.Errorf("there are partial files: %v, %v", entries, err)
	}
	for _, bad := range []digest.Digest{"", "sha256:..", "sha256:../../x", digest.SHA512.FromString("x")} {
		if _, err := l.blob(ocispec.Descriptor{Digest: bad}); err == nil {
			t.Errorf("the blob %q was opened", bad)
		}
	}
}

// seeds are documents for the fuzz tests.
func seeds(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		`{}`, `[]`, `{"schemaVersion":2,"manifests":[{"digest":"sha256:` + strings.Repeat("a", 64) + `","size":3,"annotations":{"org.opencontainers.image.ref.name":"a/b:1"}}]}`,
		`{"schemaVersion":2,"config":{"digest":"sha256:` + strings.Repeat("b", 64) + `","size":2},"layers":[{"digest":"sha512:","size":-1}],"subject":{}}`,
		`{"created":"","requests":[{"name":"A","process":true,"image":"x"}],"names":{"x":"sha256:"},"locks":{},"digests":["sha256:x"],"have":[]}`,
		`{"created":"","requests":[{"name":"A","process":true,"image":"x"},{"name":"b\\u000ac","image":"x"}],"names":{},"locks":{},"digests":[],"have":[]}`,
	} {
		f.Add([]byte(s))
	}
}

// FuzzIndex checks that what is accepted of an index has bounds and valid digests.
func FuzzIndex(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		index, err := parseIndex(raw)
		if err != nil {
			return
		}
		for _, d := range index.Manifests {
			if _, err := blobPath(d.Digest); err != nil || d.Size < 0 || d.Size > limits.Document {
				t.Errorf("accepted %+v", d)
			}
			if n, err := parseName(d.Annotations[ocispec.AnnotationRefName]); err == nil && (strings.Contains(n.repository, "..") || n.tag == "" && n.digest == "") {
				t.Errorf("accepted the name %+v", n)
			}
		}
	})
}

// FuzzManifest checks that what is accepted of a manifest has bounds and valid digests.
func FuzzManifest(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, mediaType := range []string{ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, dockerList, dockerManifest} {
			m, err := parseManifest(ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}, raw)
			if err != nil {
				continue
			}
			for _, d := range append(m.children, m.blobs...) {
				if _, err := blobPath(d.Digest); err != nil || d.Size < 0 {
					t.Errorf("accepted %+v", d)
				}
			}
		}
	})
}

// FuzzRecord checks that no record breaks a configuration of Nextflow.
func FuzzRecord(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseRecord(raw)
		if err != nil {
			return
		}
		at := map[string]string{}
		for _, one := range r.Requests {
			at[one.Image] = "h/" + one.Image
		}
		c := &content{records: []record{r}}
		for line := range strings.Lines(c.nextflowConfig(at, "", true)) {
			known := strings.HasPrefix(line, "//") || strings.HasPrefix(line, "    withName: '") && strings.Count(line, "'") == 4 ||
				line == "process {\n" || line == "}\n" || strings.Contains(line, ".") && !strings.Contains(line, "container")
			if !known || strings.Contains(line, `\`) {
				t.Errorf("the configuration has the line %q", line)
			}
		}
		_, _ = parseHave(raw)
	})
}

package layering

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/chunked"
	"slipway.dev/services/internal/limits"
)

func recorded(change ...func(*Package)) (spec.Record, Package) {
	rec := spec.Record{Name: "zlib", Version: "1.2", Build: "0"}
	p := Package{
		Layer:     Layer{MediaType: Gzip.mediaType(), Digest: digest.FromString("blob"), Size: 4, DiffID: digest.FromString("tar"), By: rec.History()},
		Installed: 3, Paths: []string{"lib/", "lib/libz.so"}, HardLinks: map[string]string{"lib/libz.so.1": "lib/libz.so"},
	}
	p.Annotations = map[string]string{chunked.EstargzTOC: digest.FromString("toc").String(), chunked.EstargzSize: "12"}
	for _, f := range change {
		f(&p)
	}
	return rec, p
}

// TestRecord checks that a record can be decoded, and that a record of another layer is
// rejected.
func TestRecord(t *testing.T) {
	t.Parallel()
	rec, p := recorded()
	raw, err := writeRecord(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(raw, rec, Gzip.mediaType())
	if diff := cmp.Diff(p, got); diff != "" || err != nil {
		t.Errorf("it comes as %v\n%s", err, diff)
	}
	if _, err := readRecord(raw, rec, Zstd.mediaType()); err == nil {
		t.Error("a layer with another compression is taken")
	}
	for name, change := range map[string]func(*Package){
		"another package":   func(p *Package) { p.By = "conda: zlib 1.3 0" },
		"malformed digest":  func(p *Package) { p.Digest = "sha256:abc" },
		"no diff id":        func(p *Package) { p.DiffID = "" },
		"another algorithm": func(p *Package) { p.Digest = digest.SHA512.FromString("blob") },
		"no length":         func(p *Package) { p.Size = 0 },
		"path to elsewhere": func(p *Package) { p.Paths = append(p.Paths, "../etc/passwd") },
		"absolute path":     func(p *Package) { p.Paths = append(p.Paths, "/etc/passwd") },
		"link to elsewhere": func(p *Package) { p.HardLinks["a"] = "b/../../c" },
		"long path":         func(p *Package) { p.Paths = append(p.Paths, strings.Repeat("a", limits.ArtifactPath+1)) },
		"an annotation":     func(p *Package) { p.Annotations = map[string]string{"org.opencontainers.image.title": "x"} },
		"another value":     func(p *Package) { p.Annotations = map[string]string{chunked.EstargzTOC: "sha256:x"} },
		"scripts":           func(p *Package) { p.LinkScripts = make([]artifact.Script, limits.ArtifactScripts+1) },
	} {
		_, p := recorded(change)
		raw, err := writeRecord(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readRecord(raw, rec, Gzip.mediaType()); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte(" "), limits.LayerRecordUnpacked+1))
	_ = z.Close()
	for name, raw := range map[string][]byte{"nothing": nil, "no gzip": []byte("{}"), "long unpacked": bomb.Bytes(), "long": make([]byte, limits.LayerRecord+1)} {
		if _, err := readRecord(raw, rec, Gzip.mediaType()); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// FuzzRecord checks that any record of another worker is either unchanged or rejected.
func FuzzRecord(f *testing.F) {
	rec, p := recorded()
	good, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"paths":[".."]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text)
		_ = z.Close()
		got, err := readRecord(b.Bytes(), rec, Gzip.mediaType())
		if err != nil {
			return
		}
		if got.By != p.By || got.Digest.Validate() != nil || got.DiffID.Validate() != nil || got.Size <= 0 {
			t.Errorf("it is taken as %+v", got)
		}
	})
}

package conda

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
)

// openList returns a list with one record of zlib.
func openList(t *testing.T, version string) *index.Index {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list")
	text := fmt.Sprintf(`{"packages.conda": {"zlib-%[1]s-0.conda": {"name": "zlib", "version": "%[1]s", "build": "0", "build_number": 0, "depends": ["libgcc >=14"]}}}`, version)
	if _, err := index.Build(path, strings.NewReader(text), index.Meta{}, func(*index.Meta) error { return nil }); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(path, index.Place{Channel: "test", Subdir: "noarch", Folder: "https://example.org/test/noarch/"})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// zlib returns the only record of zlib in a source.
func zlib(t *testing.T, s solver.Source) *spec.Record {
	t.Helper()
	all, err := s.Records("zlib")
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	return &all[0]
}

func sourceOf(c recordCache, x *index.Index) solver.Source {
	l := list{}
	l.Index = x
	return c.source(l)
}

// TestRecordsAreDecodedOnce checks that a list's records are cached for that list only, and that
// they do not keep it open.
func TestRecordsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	c, x := newRecordCache(), openList(t, "1.3")
	first := zlib(t, sourceOf(c, x))
	if zlib(t, sourceOf(c, x)) != first {
		t.Error("the records are decoded twice")
	}
	if all, err := sourceOf(c, x).Records("zstd"); len(all) != 0 || err != nil {
		t.Errorf("zstd: %v, %v", all, err)
	}
	if next := zlib(t, sourceOf(c, openList(t, "1.4"))); next.Version != "1.4" {
		t.Errorf("another list has %s", next.Version)
	}
	past := x.Overlay(openList(t, "1.2"), "sha256:0")
	if n := len(must(t, sourceOf(c, past))); n != 2 {
		t.Errorf("the list of a past time has %d records", n)
	}
	open := func() weak.Pointer[index.Index] {
		x := openList(t, "1.5")
		zlib(t, sourceOf(c, x))
		return weak.Make(x)
	}()
	for end := time.Now().Add(time.Minute); open.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("cached records keep their list open")
		}
	}
}

func must(t *testing.T, s solver.Source) []spec.Record {
	t.Helper()
	all, err := s.Records("zlib")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSizeOfRecords checks that long members count in full.
func TestSizeOfRecords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, r := range map[string]spec.Record{
		"dependency": {Depends: []string{long}}, "constraint": {Constrains: []string{long}}, "feature": {TrackFeatures: []string{long}},
		"licence": {License: long}, "family": {LicenseFamily: long}, "path": {PythonSitePackagesPath: long},
	} {
		if n := sizeOf([]spec.Record{r, r}); n < 20_000 || n > 22_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

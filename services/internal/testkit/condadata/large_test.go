package condadata_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit/condadata"
)

func TestLargeKeepsTheRecordsAndAddsOthers(t *testing.T) {
	t.Parallel()
	const records = 1500 // from bioconda's few: all of them, other builds, other names
	var text bytes.Buffer
	condadata.Large(t, &text, "bioconda", "linux-64", records)
	original, large := sections(t, condadata.Repodata(t, "bioconda", "linux-64")), sections(t, text.Bytes())
	if len(large) != records {
		t.Fatalf("%d records, want %d", len(large), records)
	}
	named := func(in map[string]record) (names map[string]int) {
		names = map[string]int{}
		for file, r := range in {
			names[r.Name]++
			if want := r.Name + "-" + r.Version + "-" + r.Build + "."; !strings.HasPrefix(file, want) {
				t.Errorf("%s is the file of %s", file, want)
			}
		}
		return names
	}
	before, after := named(original), named(large)
	for name, n := range before {
		if after[name] != 10*n {
			t.Errorf("%s has %d records, want ten times %d", name, after[name], n)
		}
	}
	for file, r := range original {
		if large[file] != r {
			t.Errorf("%s is %+v, want %+v", file, large[file], r)
		}
	}
	if len(after) <= 2*len(before) {
		t.Errorf("%d names of %v", len(after), slices.Sorted(maps.Keys(before)))
	}
}

type record struct {
	Name, Version, Build string
	Timestamp            int64
}

// sections returns the records of both sections by file name.
func sections(t *testing.T, text []byte) map[string]record {
	t.Helper()
	var doc struct {
		Packages map[string]record `json:"packages"`
		Conda    map[string]record `json:"packages.conda"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	maps.Copy(doc.Conda, doc.Packages)
	return doc.Conda
}

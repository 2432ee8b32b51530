package index_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/testkit/condadata"
)

// past returns the index of the earlier state of a list, reconstructed from the differences.
func past(t testing.TB, before, after *index.Index) (_ *index.Index, changes []string) {
	t.Helper()
	dir := t.TempDir()
	w, err := index.Create(filepath.Join(dir, "past.idx"))
	if err != nil {
		t.Fatal(err)
	}
	err = index.Diff(before, after, func(name, fileName, raw []byte) error {
		changes = append(changes, fmt.Sprintf("%s/%s=%d", name, fileName, len(raw)))
		return w.AddPast(name, fileName, raw)
	})
	if err != nil {
		t.Fatal(err)
	}
	x, err := w.Detach(place())
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	return after.Overlay(x, "sha256:earlier"), changes
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	record := func(name, more string) string {
		return `{"name":"` + name + `","version":"1","build":"0"` + more + `}`
	}
	before := build(t, `{"packages":{"a-1-0.tar.bz2":`+record("a", "")+`},"packages.conda":{"b-1-0.conda":`+record("b", `,"depends":["a"]`)+`,"c-1-0.conda":`+record("c", "")+`,"d-1-0.conda":`+record("d", `,"size":5`)+`}}`)
	after := build(t, `{"packages":{"a-1-0.tar.bz2":`+record("a", "")+`},"packages.conda":{"a-1-0.conda":`+record("a", "")+`,"b-1-0.conda":`+record("b", `,"depends":["a >1"]`)+`,"d-1-0.conda":{ "size":5, "build":"0","version":"1","name":"d"},"e-1-0.conda":`+record("e", "")+`}}`)
	x, changes := past(t, before, after)
	if got, want := strings.Join(changes, " "), "a/a-1-0.conda=0 b/b-1-0.conda=54 c/c-1-0.conda=38 e/e-1-0.conda=0"; got != want {
		t.Errorf("the changes are %s, want %s", got, want)
	}
	for name, want := range map[string]string{"a": "a-1-0.tar.bz2[]", "b": "b-1-0.conda[a]", "c": "c-1-0.conda[]", "d": "d-1-0.conda[]", "e": "", "f": ""} {
		records, err := x.Records(name)
		var got []string
		for _, r := range records {
			got = append(got, fmt.Sprintf("%s%v", r.FileName, r.Depends))
		}
		has, hasErr := x.Has(name)
		if text := strings.Join(got, " "); text != want || err != nil || has != (want != "") || hasErr != nil {
			t.Errorf("%s: %q, %v, has %v, %v, want %q", name, text, err, has, hasErr, want)
		}
	}
	if x.Meta().Snapshot != "sha256:earlier" || after.Meta().Snapshot == "sha256:earlier" {
		t.Error("the snapshot is not that of the earlier state")
	}
	if n, err := x.Bytes("b"); err != nil || n <= 54 {
		t.Errorf("b has %d bytes, %v", n, err)
	}
}

// TestOverlayOfMonth checks that all records of a day are the same when they are reconstructed
// from a later day.
func TestOverlayOfMonth(t *testing.T) {
	t.Parallel()
	month := condadata.NewMonth(t, "conda-forge", "noarch")
	before, after := build(t, string(month.Repodata(t, 3))), build(t, string(month.Repodata(t, condadata.Days)))
	x, changes := past(t, before, after)
	if len(changes) < 100 {
		t.Fatalf("only %d changes", len(changes))
	}
	names := slices.Collect(before.Names())
	for name := range after.Names() {
		names = append(names, name)
	}
	for _, name := range names {
		if want, got := sorted(t, before, name), sorted(t, x, name); !bytes.Equal(want, got) {
			t.Fatalf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

// sorted formats the records of a name, by file name.
func sorted(t testing.TB, x *index.Index, name string) []byte {
	t.Helper()
	records, err := x.Records(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("%+v\n", r))
	}
	slices.Sort(out)
	return []byte(strings.Join(out, ""))
}

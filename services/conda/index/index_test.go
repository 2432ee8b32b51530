package index_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

const small = `{
  "info": {"subdir": "linux-64"},
  "packages": {
    "zlib-1.2.11-0.tar.bz2": {"name": "zlib", "version": "1.2.11", "build": "0", "build_number": 0, "depends": ["libgcc-ng >=7.2.0"], "size": 4},
    "zlib-1.2.13-1.tar.bz2": {"name": "zlib", "version": "1.2.13", "build": "1", "build_number": 1, "depends": []},
    "Old-1-0.tar.bz2": {"name": "Old", "version": "1", "build": "0", "timestamp": 1500000000, "noarch": true, "track_features": "a, b", "license": "GPL\u0020\"2\""}
  },
  "packages.conda": {
    "zlib-1.2.13-1.conda": {"name": "zlib", "version": "1.2.13", "build": "1", "build_number": 1, "depends": ["a", "b >=1,<2"], "constrains": ["c 1.*"],
      "md5": "ABCD0123abcd0123abcd0123abcd0123", "sha256": "nonsense", "timestamp": 1600000000123, "noarch": "python", "python_site_packages_path": "lib/x", "license_family": "MIT"}
  },
  "removed": ["zlib-1.0-0.tar.bz2", {"deep": [1, 2.5e3, null, true]}],
  "repodata_version": 1
}`

func place() index.Place {
	return index.Place{Channel: "test", Subdir: "linux-64", Folder: "https://example.org/test/linux-64/"}
}

func done(*index.Meta) error { return nil }

// build creates and opens an index from a repodata file.
func build(t testing.TB, text string) *index.Index {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.idx")
	if _, err := index.Build(path, strings.NewReader(text), index.Meta{Source: "repodata.json"}, done); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(path, place())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestRecordOfEpoch checks that URLs contain an unescaped ! as in the channel: conda and
// rattler accept no escaped ! in a lock.
func TestRecordOfEpoch(t *testing.T) {
	t.Parallel()
	x := build(t, `{"packages.conda": {"x264-1!164.3095-h166bdaf_2.conda": {"name": "x264", "version": "1!164.3095", "build": "h166bdaf_2", "build_number": 2, "depends": []}}}`)
	got, err := x.Records("x264")
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if want := "https://example.org/test/linux-64/x264-1!164.3095-h166bdaf_2.conda"; got[0].URL != want {
		t.Errorf("its address is %s, want %s", got[0].URL, want)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	x := build(t, small)
	want := map[string][]spec.Record{
		"zlib": {
			{Name: "zlib", Version: "1.2.11", Build: "0", Depends: []string{"libgcc-ng >=7.2.0"}, Size: 4, FileName: "zlib-1.2.11-0.tar.bz2"},
			{
				Name: "zlib", Version: "1.2.13", Build: "1", BuildNumber: 1, Depends: []string{"a", "b >=1,<2"}, Constrains: []string{"c 1.*"},
				MD5: "abcd0123abcd0123abcd0123abcd0123", Timestamp: 1600000000123, NoArch: "python", PythonSitePackagesPath: "lib/x", LicenseFamily: "MIT",
				FileName: "zlib-1.2.13-1.conda",
			},
		},
		"old": {{
			Name: "old", Version: "1", Build: "0", Timestamp: 1500000000000, NoArch: "generic", TrackFeatures: []string{"a", "b"}, License: `GPL "2"`,
			FileName: "Old-1-0.tar.bz2",
		}},
		"absent": nil,
	}
	for name, records := range want {
		for i := range records {
			records[i].Channel, records[i].Subdir = "test", "linux-64"
			records[i].URL = "https://example.org/test/linux-64/" + records[i].FileName
		}
		got, err := x.Records(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(records, got); diff != "" {
			t.Errorf("records of %s (-want +got):\n%s", name, diff)
		}
	}
	if m := x.Meta(); m.Records != 4 || m.Skipped != 0 || m.Source != "repodata.json" {
		t.Errorf("meta is %+v", m)
	}
	if got := slices.Collect(x.Names()); !slices.Equal(got, []string{"old", "zlib"}) {
		t.Errorf("names are %q", got)
	}
}

// TestRecordsOfAFolderElsewhere checks a channel that keeps its artifacts at another
// location.
func TestRecordsOfAFolderElsewhere(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"../linux-32":                "https://example.org/test/linux-32/a-1-0.conda",
		"https://files.example.org":  "https://files.example.org/a-1-0.conda",
		"https://files.example.org/": "https://files.example.org/a-1-0.conda",
		"/p/":                        "https://example.org/p/a-1-0.conda",
	} {
		x := build(t, `{"info":{"base_url":"`+base+`"},"packages.conda":{"a-1-0.conda":{"name":"a","version":"1","build":"0"}}}`)
		got, err := x.Records("a")
		if err != nil || len(got) != 1 || got[0].URL != want {
			t.Errorf("base_url %s: got %+v, %v; want %s", base, got, err, want)
		}
	}
}

func TestSkipsInvalidRecords(t *testing.T) {
	t.Parallel()
	x := build(t, `{"packages":{
		"../../etc-1-0.conda": {"name":"etc","version":"1","build":"0"},
		"a-1-0.conda": {"name":"a b","version":"1","build":"0"},
		"b-1-0.conda": {"name":"b","version":"1\n2","build":"0"},
		"c-1-0.conda": {"name":"c","version":7,"build":"0"},
		"d-1-0.conda": {"version":"1","build":"0"},
		"e-1-0.conda": "text",
		"f-1-0.conda": {"name":"f","version":"1","build":"0","depends":7,"size":-1,"timestamp":"x","build_number":[]}
	}}`)
	if m := x.Meta(); m.Records != 1 || m.Skipped != 6 {
		t.Errorf("meta is %+v, want 1 record and 6 skipped", m)
	}
	got, err := x.Records("f")
	if err != nil || len(got) != 1 || got[0].Depends != nil || got[0].Size != 0 || got[0].Timestamp != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestRejectsInvalidRepodata checks that a damaged or hostile file is an error and leaves
// the existing file unchanged.
func TestRejectsInvalidRepodata(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an empty file":           "",
		"a page":                  "<html>Bad gateway</html>",
		"a list":                  "[]",
		"half of the file":        small[:len(small)/2],
		"all but the end":         small[:len(small)-1],
		"data after the end":      small + "{}",
		"no comma":                `{"packages":{} "packages.conda":{}}`,
		"no value":                `{"packages":{"a-1-0.conda":}}`,
		"no colon":                `{"packages" {}}`,
		"no key":                  `{7:{}}`,
		"a bare word":             `{"packages":{"a-1-0.conda":{"name":nope}}}`,
		"a deep record":           `{"packages":{"a-1-0.conda":` + strings.Repeat(`{"a":`, 100_000) + `}}`,
		"a deep ignored value":    `{"removed":` + strings.Repeat(`[`, 1_000_000),
		"a long value":            `{"packages":{"a-1-0.conda":{"name":"` + strings.Repeat("a", 3<<20) + `"}}}`,
		"a base_url of a file":    `{"info":{"base_url":"file:///etc/"},"packages":{}}`,
		"a base_url with a login": `{"info":{"base_url":"https://u:p@example.org/"},"packages":{}}`,
	} {
		path := filepath.Join(t.TempDir(), "x.idx")
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := index.Build(path, strings.NewReader(text), index.Meta{}, done); err == nil {
			t.Errorf("%s: no error", name)
		}
		left, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(left) != 1 {
			t.Errorf("%s: the folder holds %v, %v", name, left, err)
		}
		if raw, _ := os.ReadFile(path); string(raw) != "before" {
			t.Errorf("%s: the previous file was removed", name)
		}
	}
}

// TestReaderOutlivesItsFile checks that an open index can be read after it was replaced.
func TestReaderOutlivesItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.idx")
	open := func(version string) *index.Index {
		text := `{"packages":{"a-` + version + `-0.conda":{"name":"a","version":"` + version + `","build":"0"}}}`
		if _, err := index.Build(path, strings.NewReader(text), index.Meta{Fetched: time.Unix(1, 0)}, done); err != nil {
			t.Fatal(err)
		}
		x, err := index.Open(path, place())
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	before, after := open("1"), open("2")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for x, want := range map[*index.Index]string{before: "1", after: "2"} {
		got, err := x.Records("a")
		if err != nil || len(got) != 1 || got[0].Version != want {
			t.Errorf("got %+v, %v; want version %s", got, err, want)
		}
	}
}

// TestOpenRefusesADamagedFile changes each byte of a file once.
func TestOpenRefusesADamagedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.idx")
	if _, err := index.Build(path, strings.NewReader(small), index.Meta{}, done); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x20
		if index.ReadAll(bad, place()) == nil {
			t.Errorf("the change of byte %d of %d was not detected", i, len(good))
		}
		if i > 0 && index.ReadAll(good[:i], place()) == nil {
			t.Errorf("the truncation to %d of %d bytes was not detected", i, len(good))
		}
	}
	if err := index.ReadAll(good, place()); err != nil {
		t.Errorf("the good file: %v", err)
	}
}

// TestShrunkenFile checks that a file truncated while it is mapped results in an error.
func TestShrunkenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.idx")
	if _, err := index.Build(path, strings.NewReader(small), index.Meta{}, done); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(path, place())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := x.Records("zlib"); err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}

// TestEndlessRecord checks that a record with too many dependencies is omitted, and that
// the other records of its name remain.
func TestEndlessRecord(t *testing.T) {
	t.Parallel()
	x := build(t, `{"packages.conda":{
		"a-1-0.conda":{"name":"a","version":"1","build":"0","depends":["b"]},
		"a-2-0.conda":{"name":"a","version":"2","build":"0","depends":["b"`+strings.Repeat(`,"b"`, limits.ChannelDepends)+`]}}}`)
	got, err := x.Records("a")
	if err != nil || len(got) != 1 || got[0].Version != "1" {
		t.Errorf("%d records, %v", len(got), err)
	}
}

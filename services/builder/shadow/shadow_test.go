package shadow

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// record is the conda-meta record of a package.
const record = `{"name":"x","version":"1","build":"0","url":"https://h/x-1-0.conda","files":["lib/x","lib/y.py"],"depends":[],"channel":"lab",
	"paths_data":{"paths":[{"_path":"lib/x","path_type":"hardlink","sha256_in_prefix":"aa"},{"_path":"lib/y.py","path_type":"hardlink"}]}}`

// image returns a tree with the entries that two installers have in common, after change.
func image(t *testing.T, change func(map[string]*tar.Header, map[string]string)) *Tree {
	t.Helper()
	at := time.Unix(1700000000, 0)
	headers := map[string]*tar.Header{
		"opt/conda/":                      {Typeflag: tar.TypeDir, Mode: 0o755},
		"opt/conda/bin/x":                 {Typeflag: tar.TypeReg, Mode: 0o755},
		"opt/conda/bin/link":              {Typeflag: tar.TypeSymlink, Linkname: "x"},
		"opt/conda/conda-meta/x-1-0.json": {Typeflag: tar.TypeReg, Mode: 0o644},
		"opt/conda/conda-meta/history":    {Typeflag: tar.TypeReg, Mode: 0o644},
	}
	contents := map[string]string{"opt/conda/bin/x": "program", "opt/conda/conda-meta/x-1-0.json": record, "opt/conda/conda-meta/history": "one"}
	change(headers, contents)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	hard := map[string]*tar.Header{}
	write := func(name string, h *tar.Header) {
		if h.ModTime.IsZero() {
			h.ModTime = at
		}
		h.Name, h.Size = name, int64(len(contents[name]))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, contents[name]); err != nil {
			t.Fatal(err)
		}
	}
	for name, h := range headers {
		if h.Typeflag == tar.TypeLink { // after the file that it links to
			hard[name] = h
			continue
		}
		write(name, h)
	}
	for name, h := range hard {
		write(name, h)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tree, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestCompare(t *testing.T) {
	t.Parallel()
	type headers = map[string]*tar.Header
	type contents = map[string]string
	const x, meta = "opt/conda/bin/x", "opt/conda/conda-meta/x-1-0.json"
	says := func(old, fresh string) func(headers, contents) {
		return func(_ headers, c contents) { c[meta] = strings.Replace(record, old, fresh, 1) }
	}
	for _, tc := range []struct {
		name   string
		change func(headers, contents) // of the installer's image
		want   []Difference
		known  []string
	}{
		{"nothing", func(headers, contents) {}, nil, nil},
		{"a mode", func(h headers, _ contents) { h[x].Mode = 0o4755 }, []Difference{{x, "mode", "0755", "4755"}}, nil},
		{"a target", func(h headers, _ contents) { h["opt/conda/bin/link"].Linkname = "y" }, []Difference{{"opt/conda/bin/link", "target", "x", "y"}}, nil},
		{"a kind", func(h headers, c contents) { h[x] = &tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}; delete(c, x) }, []Difference{{x, "kind", "file", "folder"}}, nil},
		{"a missing name", func(h headers, c contents) { delete(h, x) }, []Difference{{x, "missing", "file 0755", ""}}, nil},
		{"an additional name", func(h headers, c contents) { h["etc/x"] = &tar.Header{Typeflag: tar.TypeSymlink, Linkname: "y"} }, []Difference{{"etc/x", "missing", "", "link to y"}}, nil},
		{"a hard link is a file", func(h headers, c contents) {
			h["opt/conda/bin/y"], h[x] = h[x], &tar.Header{Typeflag: tar.TypeLink, Linkname: "opt/conda/bin/y"}
			c["opt/conda/bin/y"] = c[x]
			delete(c, x)
		}, []Difference{{"opt/conda/bin/y", "missing", "", "file 0755"}}, nil},
		{"times, compiled Python, files of the installer", func(h headers, c contents) {
			h[x].ModTime = time.Unix(1, 0)
			h["opt/conda/lib/__pycache__/y.pyc"] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}
			h["opt/conda/pkgs/urls"] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}
			h["opt/conda/conda-meta/slipway.lock"] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}
			c["opt/conda/conda-meta/history"] = "two"
		}, nil, []string{bytecode, keeping, times}},
		{"the profile of login shells", func(h headers, _ contents) {
			h["etc/profile.d/slipway-conda.sh"] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}
		}, nil, []string{login}},
		{"another profile", func(h headers, _ contents) { h["etc/profile.d/x.sh"] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644} }, []Difference{{"etc/profile.d/x.sh", "missing", "", "file 0644"}}, nil},
		{"compiled Python elsewhere", func(h headers, _ contents) { h["root/y.pyc"] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644} }, []Difference{{"root/y.pyc", "missing", "", "file 0644"}}, nil},
		{"a record's machine", says(`"channel":"lab"`, `"channel":"https://h/lab","link":{"type":1},"noarch":""`), nil, []string{fields}},
		{"a record's files in another order", says(`["lib/x","lib/y.py"]`, `["lib/y.py","lib/y.pyc","lib/x"]`), nil, nil},
		{"a record's version", says(`"version":"1"`, `"version":"2"`), []Difference{{meta, "version", `"1"`, `"2"`}}, nil},
		{"a record's files", says(`"lib/y.py"]`, `"lib/z"]`), []Difference{{meta, "files", `["lib/x","lib/y.py"]`, `["lib/x","lib/z"]`}}, nil},
		{"a record's digest", says(`"aa"`, `"bb"`), []Difference{{meta, "paths_data: lib/x: sha256_in_prefix", `"aa"`, `"bb"`}}, nil},
		{"a record's path", says(`{"_path":"lib/y.py"`, `{"_path":"lib/z"`), []Difference{
			{meta, "paths_data: lib/y.py", `"lib/y.py"`, ""}, {meta, "paths_data: lib/z", "", `"lib/z"`},
		}, nil},
		{"a record that is not JSON", says(`{"name"`, `{name`), []Difference{
			{meta, "content", "JSON: well formed", "JSON: invalid character 'n' looking for beginning of object key string"},
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := Compare(image(t, func(map[string]*tar.Header, map[string]string) {}), image(t, tc.change))
			if diff := cmp.Diff(tc.want, got.Differences); diff != "" || got.Equal() != (tc.want == nil) {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			var known []string
			for _, k := range got.Known {
				known = append(known, k.Why)
			}
			if diff := cmp.Diff(tc.known, known); diff != "" {
				t.Errorf("what is known (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordsAreBounded checks that memory is bounded for any number of records.
func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	tree := image(t, func(map[string]*tar.Header, map[string]string) {})
	if tree.kept != int64(len(record)) {
		t.Errorf("a record of %d bytes counts %d", len(record), tree.kept)
	}
	add := func(name string, size int64) error {
		return tree.add(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}, strings.NewReader(strings.Repeat(" ", int(size))))
	}
	tree.kept = limits.CondaMeta - 2
	for name, size := range map[string]int64{"opt/conda/conda-meta/y.json": 2, "opt/conda/lib/y.json": 1, "opt/conda/conda-meta/large.json": limits.Document + 1} {
		if err := add(name, size); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := add("opt/conda/conda-meta/z.json", 1); !errors.Is(err, fault.Invalid) || tree.records["opt/conda/conda-meta/z.json"] != nil {
		t.Errorf("one more: %v", err)
	}
}

// FuzzRead reads any tar and compares it with itself.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "opt/conda/conda-meta/x.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(record))})
	_, _ = io.WriteString(w, record)
	_ = w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "y"})
	_ = w.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		tree, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if got := Compare(tree, tree); got.Known != nil || !got.Equal() && !strings.HasPrefix(got.Differences[0].Direct, "JSON: ") {
			t.Errorf("it differs from itself: %+v", got)
		}
	})
}

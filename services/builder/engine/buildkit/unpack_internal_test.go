package buildkit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packed returns a gzipped tar of entries; a file's content is its link name.
func packed(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: content, Mode: 0o755}
}

func link(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	few := contextSize{packed: 1 << 20, bytes: 1000, entries: 5}
	for _, c := range []struct {
		name    string
		entries []tar.Header
		want    string // in the error; "" for none
	}{
		{"files", []tar.Header{{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o700}, file("d/a", "one"), file("/b", "two")}, ""},
		{"links", []tar.Header{file("d/a", "one"), link("d/l", "../b"), {Name: "h", Typeflag: tar.TypeLink, Linkname: "d/a"}}, ""},
		{"twice", []tar.Header{file("a", "one"), link("a", "b"), file("a", "two")}, ""},
		{"up", []tar.Header{file("../a", "x")}, "leads out"},
		{"up inside", []tar.Header{file("d/../../a", "x")}, "leads out"},
		{"absolute link", []tar.Header{link("l", "/etc/passwd")}, "leads out"},
		{"link up", []tar.Header{link("d/l", "../../x")}, "leads out"},
		{"hard link up", []tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}}, "leads out"},
		{"through links", []tar.Header{link("d/e", "."), link("l", "d/e/../.."), file("l/x", "x")}, "cannot be unpacked"},
		{"device", []tar.Header{{Name: "dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}, "neither"},
		{"pipe", []tar.Header{{Name: "fifo", Typeflag: tar.TypeFifo}}, "neither"},
		{"too many folders", []tar.Header{file("a/b/c/d/e/f", "x")}, "too large"},
		{"as many folders", []tar.Header{file("a/b/c/d/f", "x")}, ""},
		{"folders that are entries", []tar.Header{{Name: "a", Typeflag: tar.TypeDir}, {Name: "a/b", Typeflag: tar.TypeDir}, {Name: "a/b/c", Typeflag: tar.TypeDir}}, ""},
		{"too deep", []tar.Header{file(strings.Repeat("d/", 200)+"f", "x")}, "within each other"},
		{"too many", []tar.Header{file("a", ""), file("b", ""), file("c", ""), file("d", ""), file("e", ""), file("f", "")}, "too large"},
		{"a name that is not UTF-8", []tar.Header{file("caf\xe9", "x")}, "not UTF-8"},
		{"too large", []tar.Header{file("a", strings.Repeat("x", 2000))}, "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			outer := t.TempDir()
			dir := filepath.Join(outer, "context")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := unpack(bytes.NewReader(packed(t, c.entries...)), dir, few)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(outer); len(left) != 1 {
				t.Errorf("something was written outside: %v", left)
			}
		})
	}
	if err := unpack(strings.NewReader("plain"), t.TempDir(), few); err == nil {
		t.Error("that is no archive")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(f, file("a", "x"), link("l", "a"), tar.Header{Name: "d", Typeflag: tar.TypeDir}))
	f.Add(packed(f, link("l", ".."), file("l/x", "x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		outer, err := os.MkdirTemp("", "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(outer)
		dir := filepath.Join(outer, "context")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = unpack(bytes.NewReader(b), dir, contextSize{packed: 1 << 20, bytes: 1 << 16, entries: 50})
		if left, _ := os.ReadDir(outer); len(left) != 1 {
			t.Errorf("something was written outside: %v", left)
		}
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, _ error) error {
			if e != nil && !e.IsDir() && e.Type() != os.ModeSymlink && !e.Type().IsRegular() {
				t.Errorf("%s is a %s", path, e.Type())
			}
			return nil
		})
	})
}

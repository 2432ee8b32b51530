package rootfs_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/mount/rootfs"
)

const mtime = 1_700_000_000

// layer returns a layer of entries. The content of a file is its Linkname.
func layer(t testing.TB, entries ...tar.Header) rootfs.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		h.ModTime = time.Unix(mtime, 0)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return of(b.Bytes())
}

func of(raw []byte) rootfs.Layer {
	return rootfs.Layer{Name: "test", Size: int64(len(raw)), Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }}
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}

func link(kind byte, name, to string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: to}
}

// unpack returns the unpacked files: the target of links, the content of files, "/" for folders.
func unpack(t *testing.T, layers ...rootfs.Layer) (string, map[string]string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "root")
	if _, err := rootfs.Unpack(t.Context(), folder, layers); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(folder, path)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			got[name] = "/"
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			got[name] = "-> " + to
			return err
		default:
			raw, err := os.ReadFile(path)
			got[name] = string(raw)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder, got
}

func TestLayersAreMerged(t *testing.T) {
	t.Parallel()
	folder, got := unpack(t,
		layer(t, tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o500}, file("etc/kept", "kept"), file("etc/old", "old"), file("etc/changed", "before"), link(tar.TypeSymlink, "bin", "usr/bin")),
		layer(t, file("etc/.wh.old", ""), file("etc/changed", "after"), file("usr/bin/tool", "tool"), link(tar.TypeLink, "usr/bin/again", "usr/bin/tool")),
	)
	want := map[string]string{
		".": "/", "etc": "/", "etc/kept": "kept", "etc/changed": "after", "bin": "-> usr/bin", "usr": "/", "usr/bin": "/", "usr/bin/tool": "tool", "usr/bin/again": "tool",
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s is %q, want %q", name, got[name], content)
		}
	}
	if len(got) != len(want) {
		t.Errorf("unpacked %v", got)
	}
	info, err := os.Stat(filepath.Join(folder, "etc"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %v, %v", info.Mode(), err)
	}
	a, errA := os.Stat(filepath.Join(folder, "usr/bin/tool"))
	b, errB := os.Stat(filepath.Join(folder, "usr/bin/again"))
	if err := errors.Join(errA, errB); err != nil || !os.SameFile(a, b) || a.ModTime().Unix() != mtime {
		t.Errorf("%v, %v, %v", a, b, err)
	}
}

// Hard links to files that an upper layer hides need a second reading.
func TestLayersAreReadTwice(t *testing.T) {
	t.Parallel()
	_, got := unpack(t, layer(t, file("a", "first"), link(tar.TypeLink, "b", "a")), layer(t, file("a", "second")))
	if got["a"] != "second" || got["b"] != "first" {
		t.Errorf("%v", got)
	}
}

func TestRightsAreReduced(t *testing.T) {
	t.Parallel()
	setuid, secret, open := file("setuid", "x"), file("secret", "x"), file("open", "x")
	setuid.Mode, secret.Mode, open.Mode = 0o6755, 0o020, 0o666
	folder, _ := unpack(t, layer(t, setuid, secret, open, tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}))
	for name, want := range map[string]fs.FileMode{"setuid": 0o755, "secret": 0o400, "open": 0o644, "tmp": fs.ModeDir | 0o755} {
		if info, err := os.Lstat(filepath.Join(folder, name)); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %v instead of %v, %v", name, info, want, err)
		}
	}
	for _, name := range []string{"null", "fifo"} {
		if _, err := os.Lstat(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No entry is written outside the folder.
func TestNothingOutsideTheFolder(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, layers := range map[string][]rootfs.Layer{
		"parent":          {layer(t, file("../x", "x"))},
		"parent in name":  {layer(t, file("a/../../x", "x"))},
		"link as parent":  {layer(t, link(tar.TypeSymlink, "a", outside), file("a/x", "x"))},
		"link of a lower": {layer(t, link(tar.TypeSymlink, "a", outside)), layer(t, file("a/x", "x"))},
		"link and folder": {layer(t, link(tar.TypeSymlink, "a", outside), tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o777})},
		"hard link":       {layer(t, link(tar.TypeLink, "a", "../../../../etc/passwd"))},
		"hard link of":    {layer(t, link(tar.TypeSymlink, "a", "/etc/passwd"), link(tar.TypeLink, "b", "a"))},
		"file as parent":  {layer(t, file("a", "x"), file("a/x", "x"))},
		"damaged":         {of([]byte(strings.Repeat("x", 2000)))},
	} {
		folder := filepath.Join(t.TempDir(), "root")
		_, err := rootfs.Unpack(t.Context(), folder, layers)
		t.Logf("%s: %v", name, err)
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("%s: files outside: %v, %v", name, left, err)
		}
		if info, err := os.Lstat(filepath.Join(folder, "b")); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: a hard link to a file of the system", name)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("the folder outside has the mode %v, %v", info.Mode(), err)
	}
}

func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]tar.Header{
		{file("a", "x"), link(tar.TypeLink, "b", "a"), link(tar.TypeSymlink, "c", "/etc")},
		{link(tar.TypeSymlink, "a", "/tmp"), file("a/b", "x"), file(".wh.a", "")},
	} {
		r, err := layer(f, entries...).Open(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, raw)
	}
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		folder := t.TempDir()
		_, err := rootfs.Unpack(t.Context(), filepath.Join(folder, "root"), []rootfs.Layer{of(lower), of(upper)})
		if left, readErr := os.ReadDir(folder); readErr != nil || len(left) != 1 {
			t.Errorf("%v, %v, %v", left, err, readErr)
		}
	})
}

// Other users of a shared cache read what a user with a strict umask has unpacked, also folders that no layer names.
func TestStrictMask(t *testing.T) {
	if folder := os.Getenv("SLIPWAY_TEST_MASK"); folder != "" {
		syscall.Umask(0o077)
		if _, err := rootfs.Unpack(t.Context(), folder, []rootfs.Layer{layer(t, file("a/b/c", "x"), tar.Header{Typeflag: tar.TypeDir, Name: "a/d"}, file("a/d/e/f", "x"))}); err != nil {
			t.Fatal(err)
		}
		return
	}
	folder := filepath.Join(t.TempDir(), "root")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStrictMask$")
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_MASK="+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"", "a", "a/b", "a/b/c", "a/d", "a/d/e", "a/d/e/f"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}
}

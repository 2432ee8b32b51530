package squashfs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/testkit/real"
)

// realTools skips the test unless the programs of squashfs-tools are enabled.
func realTools(t testing.TB) {
	t.Helper()
	if !real.Servers() {
		t.Skip("needs squashfs-tools-ng and squashfs-tools: SLIPWAY_TEST_REAL is not set")
	}
}

// run returns the output of a program.
func run(t testing.TB, in io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env, cmd.Stdin = []string{"LC_ALL=C", "TZ=UTC", "SOURCE_DATE_EPOCH=0", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, in
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// archive returns items as a tar.
func archive(t testing.TB, items []item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		if err := w.WriteHeader(&i.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, i.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// squashed makes an image of a tar.
func squashed(t testing.TB, raw io.Reader, o options) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "ours.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = write(t.Context(), t, f, o, func(add entries) error {
		for r := tar.NewReader(raw); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = add(h, r)
			}
			if err != nil {
				return err
			}
		}
	})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// goTree returns the files of the Go installation as a tar.
func goTree(t testing.TB) []byte {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join(strings.TrimSpace(run(t, nil, "go", "env", "GOROOT")), "src"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(root.FS()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// many returns n small files, of which inOne are in one folder.
func many(n, inOne int) []item {
	var out []item
	for i := range n {
		dir := "many"
		if i >= inOne {
			dir = fmt.Sprint("some/", i%1000)
		}
		f := file(fmt.Sprintf("%s/file-%d", dir, i), fmt.Sprint(i))
		f.Uid, f.Mode = i%200, int64(i&0o777)
		out = append(out, f)
	}
	return out
}

// TestListsAsTar2sqfs compares kinds, modes, owners, sizes, times and names, as
// squashfs-tools lists them, with those of another writer for the same tar.
func TestListsAsTar2sqfs(t *testing.T) {
	t.Parallel()
	realTools(t)
	// tar2sqfs uses the current time for folders without an entry; an image has an entry
	// for all folders.
	plain := slices.DeleteFunc(variety(), func(i item) bool { return strings.HasPrefix(i.Name, "late/in") })
	var folders []item
	for path, n := range wanted(plain) {
		if n.Kind == 1 && path != "" && path != "/set" && path != "/nothing" && path != "/late" {
			folders = append(folders, other(tar.TypeDir, path[1:]+"/", ""))
		}
	}
	slices.SortFunc(folders, func(a, b item) int { return strings.Compare(a.Name, b.Name) })
	for name, raw := range map[string][]byte{
		"variety": archive(t, append(folders, plain...)), "a tree": goTree(t), "nothing": archive(t, nil),
		"100,000 files": archive(t, append([]item{other(tar.TypeDir, "many/", ""), other(tar.TypeDir, "some/", "")}, many(100_000, 2000)...)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := filepath.Join(t.TempDir(), "theirs.squashfs")
			run(t, bytes.NewReader(raw), "tar2sqfs", "--quiet", "--no-skip", "--compressor", "zstd", "--comp-extra", "level=3", theirs)
			ours := squashed(t, bytes.NewReader(raw), options{Workers: 2})
			want, got := run(t, nil, "unsquashfs", "-lln", theirs), run(t, nil, "unsquashfs", "-lln", ours)
			if want != got {
				t.Errorf("the listings differ: %s", firstDifference(want, got))
			}
			if a, b := size(t, theirs), size(t, ours); float64(b) > 1.15*float64(a)+8192 {
				t.Errorf("ours is %d bytes, theirs %d", b, a)
			}
		})
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n-%.300s\n+%.300s", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestUnsquashfsReads unpacks images of both compressors.
func TestUnsquashfsReads(t *testing.T) {
	t.Parallel()
	realTools(t)
	for _, c := range []squashfs.Compression{{}, {Name: "gzip", Level: 1}} {
		items := append(variety(), many(500, 250)...)
		path := squashed(t, bytes.NewReader(archive(t, items)), options{Compression: c, Workers: 2})
		dir := filepath.Join(t.TempDir(), "root")
		run(t, nil, "unsquashfs", "-no-progress", "-d", dir, path)
		sameOnDisk(t, dir, wanted(items))
	}
}

// mounted mounts an image with the kernel.
func mounted(t testing.TB, path string) string {
	t.Helper()
	realTools(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "squashfs", "-o", "loop,ro", path, dir).CombinedOutput(); err != nil {
		t.Skipf("this kernel, or this container, mounts no squashfs: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	return dir
}

// TestKernelMounts reads an image with the kernel.
func TestKernelMounts(t *testing.T) {
	t.Parallel()
	realTools(t)
	for n, c := range map[int]squashfs.Compression{100_000: {}, 3000: {Name: "gzip", Level: 1}} {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			items := append(variety(), many(n, n*7/10)...)
			dir := mounted(t, squashed(t, bytes.NewReader(archive(t, items)), options{Compression: c, Workers: 2}))
			sameOnDisk(t, dir, wanted(items))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		dir := mounted(t, squashed(t, bytes.NewReader(archive(t, nil)), options{}))
		if all, err := os.ReadDir(dir); err != nil || len(all) != 0 {
			t.Errorf("it holds %v, %v", all, err)
		}
	})
}

// TestKernelReadsALargeFile reads a file of 6 GiB, mostly holes, and the blocks after it.
func TestKernelReadsALargeFile(t *testing.T) {
	t.Parallel()
	realTools(t)
	const length, at = 6 << 30, 5<<30 + 12345
	f, err := os.Create(filepath.Join(t.TempDir(), "large.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := write(t.Context(), t, f, options{Workers: 2}, func(add entries) error {
		content := io.MultiReader(io.LimitReader(zeros{}, at), strings.NewReader("here"), io.LimitReader(zeros{}, length-at-4))
		if err := add(&tar.Header{Typeflag: tar.TypeReg, Name: "large", Size: length}, content); err != nil {
			return err
		}
		return add(&tar.Header{Typeflag: tar.TypeReg, Name: "next", Size: 1 << 20}, strings.NewReader(noise(3, 1<<20)))
	})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if written > 2<<20 {
		t.Errorf("zeros take %d bytes", written)
	}
	dir := mounted(t, f.Name())
	large, err := os.Open(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	piece := make([]byte, 8)
	if _, err := large.ReadAt(piece, at-2); err != nil || string(piece) != "\x00\x00here\x00\x00" || size(t, large.Name()) != length {
		t.Errorf("it reads %q, %v", piece, err)
	}
	if _, err := large.ReadAt(piece, length-4); !errors.Is(err, io.EOF) {
		t.Errorf("it does not end: %v", err)
	}
	if next, err := os.ReadFile(filepath.Join(dir, "next")); err != nil || string(next) != noise(3, 1<<20) {
		t.Errorf("what follows is %d bytes, %v", len(next), err)
	}
}

// sameOnDisk compares a folder with the expected content.
func sameOnDisk(t testing.TB, dir string, want map[string]thing) {
	t.Helper()
	inodes := map[uint64]string{}
	seen := 0
	err := filepath.WalkDir(dir, func(full string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := strings.TrimPrefix(full, dir)
		seen++
		expected, ok := want[path]
		got, err := onDisk(full)
		if err != nil {
			return err
		}
		if os.Getuid() != 0 {
			got.UID, got.GID, got.Attributes = expected.UID, expected.GID, expected.Attributes
		}
		if !ok || fmt.Sprint(got) != fmt.Sprint(expected) {
			return fmt.Errorf("%.60q is %.300s instead of %.300s", path, fmt.Sprint(got), fmt.Sprint(expected))
		}
		var st unix.Stat_t
		if err := unix.Lstat(full, &st); err == nil && st.Nlink > 1 && expected.Kind != 1 {
			inodes[st.Ino] = path
		}
		return nil
	})
	if err != nil || seen != len(want) {
		t.Errorf("%d names instead of %d, %v", seen, len(want), err)
	}
	if len(inodes) != 2 {
		t.Errorf("the hard links are of %v", inodes)
	}
}

// onDisk returns an entry of a file system.
func onDisk(path string) (thing, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return thing{}, err
	}
	kinds := map[uint32]uint16{unix.S_IFDIR: 1, unix.S_IFREG: 2, unix.S_IFLNK: 3, unix.S_IFBLK: 4, unix.S_IFCHR: 5, unix.S_IFIFO: 6}
	out := thing{
		Kind: kinds[st.Mode&unix.S_IFMT], Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Mtime: uint32(st.Mtim.Sec), Links: uint32(st.Nlink),
	}
	var err error
	switch out.Kind {
	case 2:
		var raw []byte
		raw, err = os.ReadFile(path)
		out.Size, out.Content = uint64(st.Size), string(raw)
	case 3:
		out.Target, err = os.Readlink(path)
	case 4, 5:
		out.Device = unix.Minor(st.Rdev)&0xff | unix.Major(st.Rdev)<<8 | unix.Minor(st.Rdev)&^0xff<<12
	}
	if err != nil {
		return out, err
	}
	out.Attributes, err = attributesOnDisk(path)
	return out, err
}

func attributesOnDisk(path string) (map[string]string, error) {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(path, names)
	if err != nil || n == 0 {
		return nil, err
	}
	out := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, err
		}
		out[name] = string(value[:n])
	}
	return out, nil
}

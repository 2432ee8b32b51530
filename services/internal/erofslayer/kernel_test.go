package erofslayer_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// mounted mounts an image with the kernel, and skips the test where that is impossible.
func mounted(t *testing.T, image []byte) string {
	t.Helper()
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || !bytes.Contains(known, []byte("\terofs\n")) || os.Getuid() != 0 {
		t.Skip("NOT TESTED with the kernel: it needs root and a kernel with EROFS")
	}
	file, at := filepath.Join(t.TempDir(), "layer.erofs"), t.TempDir()
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "erofs", "-o", "ro,loop", file, at).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// xattrsOf returns the extended attributes of a file.
func xattrsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	names := make([]byte, 1<<16)
	n, err := unix.Llistxattr(file, names)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(file, name, value)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(value[:n])
	}
	return out
}

// onDisk describes a file in a mounted image.
func onDisk(t *testing.T, file string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(file, &st); err != nil {
		t.Fatal(err)
	}
	content, target := []byte(nil), ""
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		content, err = os.ReadFile(file)
	case unix.S_IFLNK:
		target, err = os.Readlink(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	device := uint64(0)
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		device = st.Rdev
	}
	return fmt.Sprintf("%o %d:%d %d.%09d %q %d:%d %s %v", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, target, unix.Major(device), unix.Minor(device), digest.FromBytes(content), xattrsOf(t, file))
}

// inTar describes an entry of a tar in the same form.
func inTar(e entry) string {
	kind := map[byte]uint32{
		tar.TypeReg: unix.S_IFREG, tar.TypeDir: unix.S_IFDIR, tar.TypeSymlink: unix.S_IFLNK, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO,
	}[e.Typeflag]
	xattrs := map[string]string{}
	for k, v := range e.PAXRecords {
		if name, is := strings.CutPrefix(k, "SCHILY.xattr."); is {
			xattrs[name] = v
		}
	}
	return fmt.Sprintf("%o %d:%d %d.%09d %q %d:%d %s %v", kind|uint32(e.Mode), e.Uid, e.Gid, e.ModTime.Unix(), e.ModTime.Nanosecond(), e.Linkname, e.Devmajor, e.Devminor, digest.FromBytes(e.content), xattrs)
}

// TestKernel checks that the files of an image that the kernel has mounted are those of the tar.
func TestKernel(t *testing.T) {
	t.Parallel()
	at := mounted(t, imageOf(t, sample()))
	want, got := map[string]string{}, map[string]string{}
	for _, e := range sample() {
		name := strings.TrimSuffix(e.Name, "/")
		if want[name] = inTar(e); e.Typeflag == tar.TypeLink {
			want[name] = want[e.Linkname]
		}
	}
	err := filepath.WalkDir(at, func(file string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(at, file); err == nil && name != "." {
			got[name] = onDisk(t, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var one, two unix.Stat_t
	if err := unix.Lstat(filepath.Join(at, "etc/small"), &one); err != nil {
		t.Fatal(err)
	}
	if err := unix.Lstat(filepath.Join(at, "another-hard"), &two); err != nil || one.Ino != two.Ino || one.Nlink != 3 {
		t.Errorf("the names of a file are %d with %d names, and %d: %v", one.Ino, one.Nlink, two.Ino, err)
	}
}

// TestOverlay checks that whiteouts and opaque directories hide files of lower layers when overlayfs
// combines two mounted images, and nothing else.
func TestOverlay(t *testing.T) {
	t.Parallel()
	file := func(name string) entry {
		return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: time.Unix(9, 0)}, []byte(name)}
	}
	lower := mounted(t, imageOf(t, []entry{file("kept"), file("gone"), file("gone-directory/a"), file("opaque/lower"), file("replaced/lower"), file("merged/lower"), file("merged/gone")}))
	upper := mounted(t, imageOf(t, []entry{
		file(".wh.gone"), file(".wh.gone-directory"), file("opaque/.wh..wh..opq"), file("opaque/upper"), file(".wh.replaced"), file("replaced/upper"), file("merged/upper"), file("merged/.wh.gone"),
	}))
	at := t.TempDir()
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+upper+":"+lower); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	var got []string
	err := filepath.WalkDir(at, func(file string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(at, file); err == nil && !d.IsDir() {
			got = append(got, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kept", "merged/lower", "merged/upper", "opaque/upper", "replaced/upper"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestErofsUtils checks an image with the programs of erofs-utils.
func TestErofsUtils(t *testing.T) {
	t.Parallel()
	fsck, err := exec.LookPath("fsck.erofs")
	if err != nil {
		t.Skip("NOT TESTED with fsck.erofs: install erofs-utils")
	}
	file := filepath.Join(t.TempDir(), "layer.erofs")
	if err := os.WriteFile(file, imageOf(t, append(sample(), entry{tar.Header{Typeflag: tar.TypeReg, Name: "many/.wh.gone"}, nil}, entry{tar.Header{Typeflag: tar.TypeReg, Name: "dev/.wh..wh..opq"}, nil})), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), fsck, file).CombinedOutput(); err != nil {
		t.Errorf("fsck.erofs: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "dump.erofs", "-s", file).CombinedOutput(); err != nil || !strings.Contains(string(out), "0xE0F5E1E2") {
		t.Errorf("dump.erofs: %v\n%s", err, out)
	}
}

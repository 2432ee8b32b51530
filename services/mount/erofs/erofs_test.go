package erofs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/services/mount/erofs"
)

// device returns a device with a number of blocks.
func device(name string, blocks int) erofs.Device {
	size := uint64(blocks * erofs.BlockSize)
	chunks := make([][32]byte, (size+erofs.ChunkSize-1)/erofs.ChunkSize)
	for i := range chunks {
		copy(chunks[i][:], fmt.Sprintf("%s %d", name, i))
	}
	return erofs.NewDevice(size, chunks)
}

// packageOf returns the index of a package with these files, of one block each. A name that ends in
// "@TARGET" is a link.
func packageOf(t testing.TB, name string, files ...string) []byte {
	t.Helper()
	tree := erofs.NewTree()
	for i, file := range files {
		path, target, isLink := strings.Cut(file, "@")
		e := erofs.Entry{Mode: erofs.ModeFile | 0o644, Mtime: 1_600_000_000, Size: 100, Block: uint32(i)}
		if isLink {
			e = erofs.Entry{Mode: erofs.ModeLink | 0o777, Target: target}
		}
		if err := tree.Add(path, e); err != nil {
			t.Fatal(err)
		}
	}
	out, err := tree.Encode([]erofs.Device{device(name, len(files)+1)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func merge(t testing.TB, packages ...[]byte) (*erofs.Index, []byte) {
	t.Helper()
	tree := erofs.NewTree()
	var devices []erofs.Device
	for _, p := range packages {
		x, err := erofs.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Merge(x, len(devices)); err != nil {
			t.Fatal(err)
		}
		devices = append(devices, x.Devices()...)
	}
	raw, err := tree.Encode(devices)
	if err != nil {
		t.Fatal(err)
	}
	x, err := erofs.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	return x, raw
}

// list returns the paths of an index with what they are.
func list(t *testing.T, x *erofs.Index, nid uint64, at string) []string {
	t.Helper()
	var out []string
	err := x.Each(nid, 0, func(name string, child uint64, kind byte, _ uint64) bool {
		if found, ok := x.Lookup(nid, name); !ok || found != child {
			t.Errorf("Lookup does not find %s%s", at, name)
		}
		if name == "." || name == ".." {
			return true
		}
		switch kind {
		case erofs.KindDir:
			out = append(out, list(t, x, child, at+name+"/")...)
		case erofs.KindLink:
			target, _ := x.Target(child)
			out = append(out, at+name+"@"+target)
		default:
			device, pos, ok := x.Extent(child)
			if !ok {
				t.Errorf("%s%s has no extent", at, name)
			}
			out = append(out, fmt.Sprintf("%s%s %d:%d", at, name, device, pos/erofs.BlockSize))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMergedPackages(t *testing.T) {
	a := packageOf(t, "a", "bin/tool", "lib/liba.so@liba.so.1", "lib/liba.so.1", "share/both")
	b := packageOf(t, "b", "bin/other", "lib/libb.so", "share/both", "z")
	x, raw := merge(t, a, b)
	got := strings.Join(list(t, x, x.Root(), ""), "\n")
	want := "bin/other 1:0\nbin/tool 0:0\nlib/liba.so@liba.so.1\nlib/liba.so.1 0:2\nlib/libb.so 1:1\nshare/both 1:2\nz 1:3"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, again := merge(t, a, b); !bytes.Equal(raw, again) {
		t.Error("the same packages produce other bytes")
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

func TestClashOfFileAndDirectory(t *testing.T) {
	tree := erofs.NewTree()
	for i, p := range [][]byte{packageOf(t, "a", "lib/x"), packageOf(t, "b", "lib")} {
		x, err := erofs.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Merge(x, i); (err != nil) != (i == 1) {
			t.Errorf("package %d: %v", i, err)
		}
	}
}

func TestHardLinksShareAnInode(t *testing.T) {
	tree := erofs.NewTree()
	if err := tree.Add("bin/a", erofs.Entry{Mode: erofs.ModeFile | 0o755, Size: 5}); err != nil {
		t.Fatal(err)
	}
	if err := tree.Link("lib/b", "bin/a"); err != nil {
		t.Fatal(err)
	}
	raw, err := tree.Encode([]erofs.Device{device("a", 1)})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := merge(t, raw, packageOf(t, "b", "bin/z"))
	bin, _ := x.Lookup(x.Root(), "bin")
	lib, _ := x.Lookup(x.Root(), "lib")
	a, _ := x.Lookup(bin, "a")
	b, _ := x.Lookup(lib, "b")
	i, ok := x.Inode(a)
	if a != b || !ok || i.Nlink != 2 {
		t.Errorf("inodes %d and %d with %d links", a, b, i.Nlink)
	}
	if err := tree.Link("lib/c", "missing"); err == nil {
		t.Error("a hard link to a missing file is accepted")
	}
}

func TestLargeDirectoriesAndLongTargets(t *testing.T) {
	var files []string
	for i := range 3000 {
		files = append(files, fmt.Sprintf("many/%04d-%s", i, strings.Repeat("x", i%200)))
	}
	long := strings.Repeat("t", 4000)
	files = append(files, "long@"+long, "-dash", "many/.hidden")
	x, _ := merge(t, packageOf(t, "a", files...))
	if got := list(t, x, x.Root(), ""); len(got) != len(files) {
		t.Errorf("%d files instead of %d", len(got), len(files))
	}
	nid, _ := x.Lookup(x.Root(), "long")
	if target, ok := x.Target(nid); !ok || target != long {
		t.Errorf("the target has %d bytes", len(target))
	}
	if _, ok := x.Lookup(x.Root(), "missing"); ok {
		t.Error("a missing name is found")
	}
}

func TestEmbeddedFiles(t *testing.T) {
	tree := erofs.NewTree()
	want := []byte(strings.Repeat("lock", 5000))
	if err := tree.Add("conda-meta/lock", erofs.Entry{Mode: erofs.ModeFile | 0o644, Device: erofs.Embedded, Size: uint64(len(want)), Data: want}); err != nil {
		t.Fatal(err)
	}
	raw, err := tree.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := merge(t, packageOf(t, "a", "bin/a"), raw)
	dir, _ := x.Lookup(x.Root(), "conda-meta")
	nid, _ := x.Lookup(dir, "lock")
	if got, ok := x.Data(nid); !ok || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), ok)
	}
}

func TestMalformedPaths(t *testing.T) {
	for _, path := range []string{"", "/a", "a//b", "a/../b", ".", "a/", strings.Repeat("a", 300), "a\x00b", strings.Repeat("d/", 600) + "f"} {
		if err := erofs.NewTree().Add(path, erofs.Entry{Mode: erofs.ModeFile}); err == nil {
			t.Errorf("%.20q is accepted", path)
		}
	}
}

// TestTamperedIndex changes each part of an index that the digest of a device does not cover.
func TestTamperedIndex(t *testing.T) {
	good := packageOf(t, "a", "bin/a")
	for _, at := range []int{len(good) - 1, len(good) - 20, len(good) - 30, 1024, 1024 + 80, 1152} {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if _, err := erofs.Open(bad); err == nil {
			t.Errorf("a change at %d is accepted", at)
		}
	}
}

// FuzzIndex changes bytes of inodes and directories, which only the digest of the index protects,
// and uses all methods.
func FuzzIndex(f *testing.F) {
	good := packageOf(f, "a", "bin/a", "lib/b@c", "d/e/f", "d/e/g", "empty@x")
	const tree = 1024 + 2*128 // behind the table of devices
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{0, 4, 0x40, 0, 16, 1})
	f.Fuzz(func(t *testing.T, changes []byte) {
		raw := bytes.Clone(good)
		for ; len(changes) >= 3; changes = changes[3:] {
			at := tree + (int(changes[0])<<8|int(changes[1]))%(erofs.BlockSize-tree)
			raw[at] = changes[2]
		}
		x, err := erofs.Open(raw)
		if err != nil {
			t.Fatalf("a change of the tree makes Open fail: %v", err)
		}
		for nid := range uint64(len(raw))/32 + 2 {
			_, _ = x.Inode(nid)
			_, _ = x.Data(nid)
			_, _ = x.Target(nid)
			_, _, _ = x.Extent(nid)
			_, _ = x.Lookup(nid, "a")
			left := 100
			_ = x.Each(nid, 0, func(string, uint64, byte, uint64) bool { left--; return left > 0 })
		}
		if x.Check() != nil {
			return
		}
		merged := erofs.NewTree()
		if err := merged.Merge(x, 0); err != nil {
			t.Fatal(err)
		}
		again, err := merged.Encode(x.Devices())
		if err != nil {
			t.Fatal(err)
		}
		if y, err := erofs.Open(again); err != nil || y.Check() != nil {
			t.Fatalf("encoding a valid index again makes an invalid one: %v", err)
		}
	})
}

// FuzzOpen opens arbitrary bytes.
func FuzzOpen(f *testing.F) {
	f.Add(packageOf(f, "a", "bin/a"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if x, err := erofs.Open(raw); err == nil {
			_ = x.Check()
		}
	})
}

// TestManyHardLinks checks that a file may have more names than an index has inodes.
func TestManyHardLinks(t *testing.T) {
	tree := erofs.NewTree()
	if err := tree.Add("bin/a", erofs.Entry{Mode: erofs.ModeFile | 0o755, Size: 5}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := tree.Link(fmt.Sprintf("bin/%d", i), "bin/a"); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := tree.Encode([]erofs.Device{device("a", 1)})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := merge(t, raw)
	if got := list(t, x, x.Root(), ""); len(got) != 1001 || x.Check() != nil {
		t.Errorf("%d names, %v", len(got), x.Check())
	}
}

// TestDirectoryWithTwoParents checks that a directory is read once, however many names lead to it.
func TestDirectoryWithTwoParents(t *testing.T) {
	raw := packageOf(t, "a", "x/1", "y/2")
	x, err := erofs.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := x.Lookup(x.Root(), "x")
	second, _ := x.Lookup(x.Root(), "y")
	at := bytes.Index(raw[1024:], binary.LittleEndian.AppendUint64(nil, second))
	if at < 0 {
		t.Fatal("the name is not found")
	}
	binary.LittleEndian.PutUint64(raw[1024+at:], first)
	if x.Check() == nil {
		t.Error("a directory with two parents is accepted")
	}
}

// BenchmarkMerge merges the indexes of 140 packages with 55,000 files.
func BenchmarkMerge(b *testing.B) {
	var packages [][]byte
	for p := range 140 {
		var files []string
		for i := range 390 {
			files = append(files, fmt.Sprintf("lib/python3.12/site-packages/p%d/m%d/f%d.py", p, i/20, i))
		}
		files = append(files, fmt.Sprintf("bin/p%d", p), fmt.Sprintf("conda-meta/p%d.json", p))
		packages = append(packages, packageOf(b, fmt.Sprint(p), files...))
	}
	for b.Loop() {
		_, raw := merge(b, packages...)
		b.SetBytes(int64(len(raw)))
	}
}

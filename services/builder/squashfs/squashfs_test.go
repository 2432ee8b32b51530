package squashfs_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/squashfs"
)

// TestWrite reads images back with an independent reader.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []squashfs.Compression{{}, {Name: "gzip"}, {Name: "zstd", Level: 9}, {Name: "gzip", Level: 9}} {
		t.Run(fmt.Sprint(c.Name, c.Level), func(t *testing.T) {
			t.Parallel()
			all := things(t, options{Compression: c, Workers: 2}, variety()...)
			for path, want := range wanted(variety()) {
				if diff := cmp.Diff(want, without(all)[path]); diff != "" {
					t.Errorf("%.60q: %.2000s", path, diff)
				}
			}
			if want := len(wanted(variety())); len(all) != want {
				t.Errorf("it holds %d names, not %d", len(all), want)
			}
			if a, b := all["/bin/ping"], all["/a-first"]; a.Number != b.Number {
				t.Errorf("hard links are two inodes, %d and %d", a.Number, b.Number)
			}
		})
	}
}

// TestEmpty writes an image without entries.
func TestEmpty(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(map[string]thing{"": {Kind: 1, Mode: 0o755, Links: 2}}, without(things(t, options{}))); diff != "" {
		t.Error(diff)
	}
}

// TestReplace adds names twice and checks that the later entry stays.
func TestReplace(t *testing.T) {
	t.Parallel()
	items := []item{
		file("a", "one"), other(tar.TypeLink, "b", "a"), file("a", "two"), other(tar.TypeLink, "b", "b"),
		other(tar.TypeDir, "d/", ""), file("d/x", "kept"), {tar.Header{Typeflag: tar.TypeDir, Name: "d", Mode: 0o700, Uid: 3}, ""},
		{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o711, Gid: 4}, ""},
		other(tar.TypeSymlink, "s", "x"), other(tar.TypeFifo, "s", ""),
	}
	if diff := cmp.Diff(wanted(items), without(things(t, options{}, items...))); diff != "" {
		t.Error(diff)
	}
}

// TestSameBytes checks that the bytes do not depend on the number of workers or on the
// file's former content.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	items := variety()
	for i := range 300 {
		items = append(items, file(fmt.Sprint("many/", i), noise(uint64(i%50), i*700)))
	}
	var want []byte
	for _, workers := range []int{0, 1, 2, 7} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, bytes.Repeat([]byte("what was there "), 2_000_000), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write(t.Context(), t, f, options{Workers: workers}, adding(items...)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("with %d workers it is another image, of %d bytes instead of %d", workers, len(got), len(want))
		}
	}
}

// TestSameContentOnce checks that equal files are stored once.
func TestSameContentOnce(t *testing.T) {
	t.Parallel()
	size := func(items ...item) int64 {
		path, err := image(t, options{Workers: 2}, items...)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	large, small := noise(1, 1<<20), noise(2, 60_000)
	one := size(file("a", large), file("b", small))
	if many := size(file("a", large), file("b", small), file("c", large), file("d", small)); many > one+4096 {
		t.Errorf("twice the same takes %d bytes instead of %d", many, one)
	}
	// A file that is a prefix of another has its own blocks.
	if more := size(file("a", large), file("b", small), file("c", large[:512<<10])); more < one+512<<10 {
		t.Errorf("half a file was found in another: %d bytes, %d", more, one)
	}
}

// TestRefuses checks entries that no image can represent.
func TestRefuses(t *testing.T) {
	t.Parallel()
	with := func(f func(*tar.Header)) item {
		i := file("x", "")
		f(&i.Header)
		return i
	}
	var owners []item
	for n := range 65536 {
		owners = append(owners, with(func(h *tar.Header) { h.Uid = n + 1 }))
	}
	tests := []struct {
		name, want string
		items      []item
	}{
		{"a path that leads out", "can have the path", []item{file("a/../../x", "")}},
		{"a path that ends in dots", "can have the path", []item{other(tar.TypeDir, "a/..", "")}},
		{"a name with a zero", "can have the path", []item{file("a\x00b", "")}},
		{"a long name", "can have the path", []item{file(strings.Repeat("x", 256), "")}},
		{"a long path", "longer than 4095", []item{file(strings.Repeat("x/", 2048)+"x", "")}},
		{"a root that is a file", "root", []item{file("./", "")}},
		{"a file with entries below", "no directory", []item{file("a", ""), file("a/b", "")}},
		{"a link with entries below", "no directory", []item{other(tar.TypeSymlink, "a", "/etc"), file("a/passwd", "")}},
		{"a file in a folder's place", "something else", []item{file("a/b", ""), file("a", "")}},
		{"a folder in a file's place", "no directory", []item{file("a", ""), other(tar.TypeDir, "a/", "")}},
		{"a hard link to nothing", "does not exist", []item{other(tar.TypeLink, "a", "b")}},
		{"a hard link through a file", "does not exist", []item{file("b", ""), other(tar.TypeLink, "a", "b/c")}},
		{"a hard link to a folder", "directory", []item{file("b/c", ""), other(tar.TypeLink, "a", "b")}},
		{"a hard link to the root", "directory", []item{other(tar.TypeLink, "a", "/")}},
		{"a symbolic link to nothing", "has no valid target", []item{other(tar.TypeSymlink, "a", "")}},
		{"a long symbolic link", "has no valid target", []item{other(tar.TypeSymlink, "a", strings.Repeat("x", 4096))}},
		{"an unknown type", "unknown type", []item{other('Z', "a", "")}},
		{"a negative length", "no length", []item{with(func(h *tar.Header) { h.Size = -1 })}},
		{"a negative owner", "no user", []item{with(func(h *tar.Header) { h.Uid = -1 })}},
		{"a large owner", "no user", []item{with(func(h *tar.Header) { h.Gid = 1 << 32 })}},
		{"too many owners", "more than 65535", owners},
		{"attributes of another kind", "cannot store", []item{with(func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.system.x": ""} })}},
		{"an attribute without a name", "cannot store", []item{with(func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.": ""} })}},
		{"a long attribute", "too long", []item{with(func(h *tar.Header) {
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 1<<16)}
		})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r *squashfs.Refusal
			if _, err := image(t, options{}, tt.items...); !errors.As(err, &r) || !strings.Contains(r.Why, tt.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestRefusesCompression checks invalid compressors and levels.
func TestRefusesCompression(t *testing.T) {
	t.Parallel()
	for _, c := range []squashfs.Compression{{Name: "lzma"}, {Name: "gzip", Level: 10}} {
		if _, err := image(t, options{Compression: c}); err == nil {
			t.Errorf("%v is taken", c)
		}
	}
}

// TestTables bounds the memory for strings and for entries.
func TestTables(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	long := strings.Repeat("t", 4000)
	for name, make := range map[string]func(i int) item{
		"names":   func(i int) item { return file(fmt.Sprint(strings.Repeat("n", 200), i), "") },
		"targets": func(i int) item { return other(tar.TypeSymlink, fmt.Sprint(i), long) },
		"folders": func(i int) item { return file(fmt.Sprint(i, strings.Repeat("/d", 1000)), "") },
		"links":   func(i int) item { return other(tar.TypeLink, fmt.Sprint(i), "x") },
		"attributes": func(i int) item {
			h := file("x", "")
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": fmt.Sprint(i, long)}
			return h
		},
		"blocks": func(i int) item {
			return item{tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i), Size: 1 << 50}, strings.Repeat("\x00", 16<<20)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r *squashfs.Refusal
			f, err := os.Create(filepath.Join(t.TempDir(), "x"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			n := 0
			_, err = write(t.Context(), t, f, options{Memory: arena.NewBudget(most)}, func(add entries) error {
				first := file("x", "")
				for err = add(&first.Header, strings.NewReader("")); err == nil && n < 50_000; n++ {
					i := make(n)
					content := io.Reader(strings.NewReader(i.content))
					if i.Size > 1<<40 {
						content = zeros{}
					}
					err = add(&i.Header, content)
				}
				return err
			})
			if !errors.As(err, &r) || n == 0 && name != "blocks" {
				t.Errorf("after %d entries the error is %v", n, err)
			}
		})
	}
}

// TestEntriesTakeLittle bounds the memory of an entry, both accounted and in the heap.
func TestEntriesTakeLittle(t *testing.T) { //nolint:paralleltest // it looks at the heap
	const n, counted, heap = 100_000, 180, 16
	budget := arena.NewBudget(0)
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var before, after runtime.MemStats
	var used int64
	c, err := squashfs.NewCompressor(squashfs.Compression{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	measure := func(fill func() error) error {
		runtime.GC()
		runtime.ReadMemStats(&before)
		err := fill()
		runtime.GC()
		runtime.ReadMemStats(&after)
		used = budget.Used()
		return err
	}
	name := func(i int) string { return fmt.Sprintf("%d/%d", i/4, i) }
	size, err := squashfs.WritePart(t.Context(), f, c, budget, func(w *squashfs.PartWriter) error {
		return measure(func() error {
			for i := range n {
				if err := w.Add(&tar.Header{Typeflag: tar.TypeReg, Name: name(i), Size: 8}, strings.NewReader(fmt.Sprintf("%08d", i))); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if each := used / n; each > counted {
		t.Errorf("a file of a part takes %d bytes", each)
	} else {
		t.Logf("a file of a part takes %d bytes", each)
	}
	p, err := squashfs.OpenPart(f, size)
	if err != nil {
		t.Fatal(err)
	}
	scratch := temporary(t)
	defer scratch.Close()
	_, err = squashfs.Write(t.Context(), scratch, c, budget, []*squashfs.Part{p}, func(w *squashfs.Writer) error {
		return measure(func() error {
			for i := range n {
				if err := w.Add(&tar.Header{Typeflag: tar.TypeReg, Name: name(i)}, 0, uint32(i)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	const entries = n + n/4
	if each := used / entries; each > counted {
		t.Errorf("an entry takes %d bytes", each)
	} else {
		t.Logf("an entry takes %d bytes", each)
	}
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / entries; each > heap {
		t.Errorf("an entry takes %d bytes of the heap", each)
	}
	if budget.Used() != 0 {
		t.Errorf("%d bytes are still in use", budget.Used())
	}
}

// TestFails checks errors that are not caused by entries: a full disk, and a source that
// fails or ends too early.
func TestFails(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there is no /dev/full:", err)
	}
	t.Cleanup(func() { _ = full.Close() }) // after the parallel subtests
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		to      io.Writer
		content io.Reader
		want    error
	}{
		"a full disk":        {full, strings.NewReader(noise(1, 64<<20)), syscall.ENOSPC},
		"a broken source":    {io.Discard, io.MultiReader(strings.NewReader(noise(1, 1<<20)), failing{broken}), broken},
		"a source too short": {io.Discard, strings.NewReader(noise(1, 1<<20)), io.ErrUnexpectedEOF},
		"no source at all":   {io.Discard, strings.NewReader(""), io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := squashfs.NewCompressor(squashfs.Compression{}, 2)
			if err != nil {
				t.Fatal(err)
			}
			_, err = squashfs.WritePart(t.Context(), tt.to, c, nil, func(w *squashfs.PartWriter) error {
				return w.Add(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: 64 << 20}, tt.content)
			})
			if !errors.Is(err, tt.want) || errors.As(err, new(*squashfs.Refusal)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("a full disk for the tables", func(t *testing.T) {
		t.Parallel()
		c, err := squashfs.NewCompressor(squashfs.Compression{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		_, err = squashfs.Write(t.Context(), full, c, nil, nil, func(w *squashfs.Writer) error {
			return w.Add(&tar.Header{Typeflag: tar.TypeDir, Name: "x"}, 0, 0)
		})
		if !errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*squashfs.Refusal)) {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestCancelled checks that Write returns immediately and leaves no goroutines, which would
// block the bubble.
func TestCancelled(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		adds := 0
		_, err := write(ctx, t, f, options{Workers: 3}, func(add entries) error {
			for ; ; adds++ {
				if adds == 5 {
					cancel(enough)
				}
				if err := add(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(adds), Size: 1 << 20}, zeros{}); err != nil {
					return err
				}
			}
		})
		if !errors.Is(err, enough) || adds > 5 {
			t.Errorf("after %d entries the error is %v", adds, err)
		}
	})
}

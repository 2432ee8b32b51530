package squashfs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/builder/squashfs"
)

// partOf returns the part of a layer with these entries.
func partOf(t testing.TB, c *squashfs.Compressor, items ...item) []byte {
	t.Helper()
	var out bytes.Buffer
	size, err := squashfs.WritePart(t.Context(), &out, c, nil, func(w *squashfs.PartWriter) error {
		for _, i := range items {
			if err := w.Add(&i.Header, strings.NewReader(i.content)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || size != int64(out.Len()) {
		t.Fatalf("%d bytes of %d, %v", size, out.Len(), err)
	}
	return out.Bytes()
}

// imageOf writes an image of parts to a file, with the entries of their listings that take accepts.
func imageOf(t testing.TB, c *squashfs.Compressor, take func(part int, name string) bool, raw ...[]byte) (string, error) {
	t.Helper()
	var parts []*squashfs.Part
	for _, r := range raw {
		p, err := squashfs.OpenPart(bytes.NewReader(r), int64(len(r)))
		if err != nil {
			return "", err
		}
		parts = append(parts, p)
	}
	scratch := temporary(t)
	defer scratch.Close()
	img, err := squashfs.Write(t.Context(), scratch, c, nil, parts, func(w *squashfs.Writer) error {
		for i, p := range parts {
			if err := addListed(w, i, p, take); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "x.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, io.NewSectionReader(img, 0, img.Size()))
	return out.Name(), errors.Join(err, out.Close())
}

// addListed adds the entries of a listing.
func addListed(w *squashfs.Writer, part int, p *squashfs.Part, take func(part int, name string) bool) error {
	listing, _ := p.Listing()
	z, err := zstd.NewReader(listing, zstd.WithDecoderMaxMemory(1<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var number [4]byte
		if h.Typeflag == tar.TypeReg {
			if _, err := io.ReadFull(r, number[:]); err != nil {
				return err
			}
		}
		if take(part, h.Name) {
			if err := w.Add(h, part, uint32(number[0])|uint32(number[1])<<8|uint32(number[2])<<16|uint32(number[3])<<24); err != nil {
				return err
			}
		}
	}
}

func all(int, string) bool { return true }

func newCompressor(t testing.TB) *squashfs.Compressor {
	t.Helper()
	c, err := squashfs.NewCompressor(squashfs.Compression{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPartsShareBlocks makes images of two parts in both orders, and without some of their entries. It
// reads them with an independent reader.
func TestPartsShareBlocks(t *testing.T) {
	t.Parallel()
	c := newCompressor(t)
	one := variety()
	var two []item
	for i := range 300 {
		two = append(two, file(fmt.Sprintf("two/%d", i), noise(uint64(i), i*997)))
	}
	two = append(two, file("two/large", noise(7, 3<<20+5)), file("two/last", noise(8, 1<<20)))
	raw := [][]byte{partOf(t, c, one...), partOf(t, c, two...)}
	check := func(want []item, take func(int, string) bool, raw ...[]byte) {
		t.Helper()
		path, err := imageOf(t, c, take, raw...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted(want), without(thingsIn(t, path))); diff != "" {
			t.Errorf("%.3000s", diff)
		}
	}
	check(slices.Concat(one, two), all, raw[0], raw[1])
	check(slices.Concat(two, one), all, raw[1], raw[0])
	// Each third file of the second part, so that blocks before, between and after are left out.
	third := func(part int, name string) bool { return part == 0 || len(name)%3 == 0 }
	kept := slices.DeleteFunc(slices.Clone(two), func(i item) bool { return !third(1, i.Name) })
	check(slices.Concat(one, kept), third, raw[0], raw[1])
}

// TestPartsLeaveOut checks that an image does not have the blocks of files that it does not have, and
// has equal files of several parts once.
func TestPartsLeaveOut(t *testing.T) {
	t.Parallel()
	c := newCompressor(t)
	large, other := noise(1, 2<<20), noise(2, 1<<20)
	one, two := partOf(t, c, file("a", large), file("b", other)), partOf(t, c, file("c", other+"x"), file("d", large))
	sizes := map[string]int64{}
	for name, take := range map[string]func(int, string) bool{
		"all": all, "a": func(_ int, name string) bool { return name == "a" }, "a and d": func(_ int, name string) bool { return name == "a" || name == "d" },
		"none": func(int, string) bool { return false },
	} {
		path, err := imageOf(t, c, take, one, two)
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = int64(len(must(os.ReadFile(path))))
	}
	for name, most := range map[string]int64{"none": 4096, "a": 2<<20 + 8192, "a and d": 2<<20 + 8192, "all": 4<<20 + 8192} {
		if size := sizes[name]; size > most || size < most-12<<10 {
			t.Errorf("%s: the image has %d bytes, want about %d", name, size, most)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPartOfOtherCompression checks that parts are not mixed with other compressions.
func TestPartOfOtherCompression(t *testing.T) {
	t.Parallel()
	c := newCompressor(t)
	gzip, err := squashfs.NewCompressor(squashfs.Compression{Name: "gzip"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := imageOf(t, gzip, all, partOf(t, c, file("a", "b"))); err == nil || !strings.Contains(err.Error(), "another compression") {
		t.Errorf("the error is %v", err)
	}
}

// TestPartIsTheSame checks that parts do not depend on the number of workers.
func TestPartIsTheSame(t *testing.T) {
	t.Parallel()
	want := partOf(t, newCompressor(t), variety()...)
	for _, workers := range []int{0, 1, 5} {
		c, err := squashfs.NewCompressor(squashfs.Compression{}, workers)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, partOf(t, c, variety()...)) {
			t.Errorf("with %d workers it is another part", workers)
		}
	}
}

// FuzzPart changes a part, and makes images of it. They are errors, or images that may be wrong.
func FuzzPart(f *testing.F) {
	c := newCompressor(f)
	raw := partOf(f, c, file("a", noise(1, 300_000)), file("b", "x"), file("hole", string(make([]byte, 200_000))), other(tar.TypeSymlink, "c", "a"))
	for at := range maps.Keys(map[int]bool{0: true, 100: true, len(raw) - 80: true, len(raw) - 8: true}) {
		f.Add(uint32(at), uint64(1)<<63, uint16(0))
	}
	f.Add(uint32(len(raw)-40), uint64(0), uint16(1))
	f.Fuzz(func(t *testing.T, at uint32, value uint64, cut uint16) {
		b := slices.Clone(raw)
		b = b[:len(b)-int(cut)%len(b)]
		for i := range 8 {
			if n := int(at)%len(raw) + i; n < len(b) {
				b[n] ^= byte(value >> (8 * i))
			}
		}
		_, _ = imageOf(t, c, all, b)
	})
}

package unsquash_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/builder/unsquash"
	"slipway.dev/services/internal/testkit/real"
)

// A node is an entry of a tar with its content.
type node struct {
	Kind        byte
	Mode        int64
	UID, GID    int
	Time        int64
	Target      string
	Attributes  map[string]string
	Size        int
	ContentHead string
}

var enough = unsquash.Limits{Bytes: 1 << 30, Entries: 10_000, Depth: 1600, LinkBytes: 1 << 20}

// noise returns incompressible content.
func noise(n int) string {
	out, r := make([]byte, n), rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(out)
	return string(out)
}

// tree returns a tar with every kind of entry.
func tree(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content string) {
		h.Size, h.ModTime, h.Format = int64(len(content)), time.Unix(1e9, 0), tar.FormatPAX
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	dir := func(name string) { add(tar.Header{Typeflag: tar.TypeDir, Name: name, Uid: 3}, "") }
	file := func(name, content string) { add(tar.Header{Typeflag: tar.TypeReg, Name: name, Gid: 70000}, content) }
	dir("bin/")
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/ping", Mode: 0o4755, PAXRecords: map[string]string{
		"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "SCHILY.xattr.user.note": "a note",
	}}, noise(300_000))
	add(tar.Header{Typeflag: tar.TypeLink, Name: "bin/pong", Linkname: "bin/ping"}, "")
	add(tar.Header{Typeflag: tar.TypeChar, Name: "bin/null", Devmajor: 1, Devminor: 3}, "")
	add(tar.Header{Typeflag: tar.TypeSymlink, Name: "lib", Linkname: "usr/lib"}, "")
	add(tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, "")
	file("empty", "")
	file("one", "1")
	file("block", noise(128<<10))
	file("text", strings.Repeat("all work and no play ", 50_000))
	file("hole", strings.Repeat("\x00", 512<<10))
	file("holes", strings.Repeat("\x00", 256<<10)+"x"+strings.Repeat("\x00", 300<<10))
	dir("many/")
	for i := range 700 {
		file(fmt.Sprintf("many/%s%d", strings.Repeat("n", 200), i), fmt.Sprint(i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// nodes reads a tar.
func nodes(t testing.TB, raw []byte) map[string]node {
	t.Helper()
	out := map[string]node{}
	for in := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		n := node{h.Typeflag, h.Mode, h.Uid, h.Gid, h.ModTime.Unix(), h.Linkname, map[string]string{}, len(content), string(content[:min(len(content), 40)])}
		if !slices.Equal(content, bytes.Repeat([]byte{0}, len(content))) {
			n.ContentHead += fmt.Sprintf("%x", content[max(0, len(content)-40):])
		}
		for k, v := range h.PAXRecords {
			if strings.HasPrefix(k, "SCHILY.xattr.") {
				n.Attributes[k] = v
			}
		}
		if h.Typeflag == tar.TypeLink {
			n.UID, n.GID, n.Time, n.Mode = 0, 0, 0, 0 // a hard link has those of its file
		}
		if h.Typeflag == tar.TypeSymlink {
			n.Mode = 0 // Linux has one mode for all symbolic links
		}
		out[h.Name] = n
	}
}

// squash makes an image of a tar with this project's writer.
func squash(t testing.TB, raw []byte, compression squashfs.Compression) string {
	t.Helper()
	c, err := squashfs.NewCompressor(compression, 1)
	if err != nil {
		t.Fatal(err)
	}
	var part bytes.Buffer
	var headers []*tar.Header
	_, err = squashfs.WritePart(t.Context(), &part, c, nil, func(w *squashfs.PartWriter) error {
		return eachEntry(raw, func(h *tar.Header, content io.Reader) error {
			headers = append(headers, h)
			return w.Add(h, content)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := squashfs.OpenPart(bytes.NewReader(part.Bytes()), int64(part.Len()))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := os.Create(filepath.Join(t.TempDir(), "tables"))
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	image, err := squashfs.Write(t.Context(), tables, c, nil, []*squashfs.Part{p}, func(w *squashfs.Writer) error {
		number := uint32(0)
		for _, h := range headers {
			if err := w.Add(h, 0, number); err != nil {
				return err
			}
			if h.Typeflag == tar.TypeReg {
				number++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.squashfs")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, io.NewSectionReader(image, 0, image.Size())); errors.Join(err, f.Close()) != nil {
		t.Fatal(err)
	}
	return path
}

func eachEntry(raw []byte, add func(h *tar.Header, content io.Reader) error) error {
	for in := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = add(h, in)
		}
		if err != nil {
			return err
		}
	}
}

// read reads an image.
func read(t testing.TB, path string, l unsquash.Limits) ([]byte, unsquash.Summary, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sum, err := unsquash.Tar(t.Context(), &out, f, info.Size(), l)
	return out.Bytes(), sum, err
}

// TestTar reads images that were written by this project, mksquashfs and tar2sqfs, and
// compares the result with the original tree.
func TestTar(t *testing.T) {
	t.Parallel()
	raw := tree(t)
	want := nodes(t, raw)
	delete(want, "bin/null")
	check := func(t *testing.T, path string) {
		t.Helper()
		out, sum, err := read(t, path, enough)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, nodes(t, out)); diff != "" {
			t.Errorf("the tree differs: %.3000s", diff)
		}
		if sum.LeftOut != 1 || sum.Entries != len(want)+1 {
			t.Errorf("the summary is %+v", sum)
		}
		again, _, err := read(t, path, enough)
		if err != nil || !bytes.Equal(out, again) {
			t.Errorf("the second time differs: %v", err)
		}
	}
	for _, c := range []squashfs.Compression{{Name: "zstd"}, {Name: "gzip"}} {
		t.Run("ours with "+c.Name, func(t *testing.T) {
			t.Parallel()
			check(t, squash(t, raw, c))
		})
	}
	for name, args := range map[string][]string{
		"tar2sqfs gzip": {"tar2sqfs", "-q", "-c", "gzip", "-b", "4096"}, "tar2sqfs zstd": {"tar2sqfs", "-q", "-c", "zstd", "-b", "1048576"},
		"mksquashfs gzip":   {"mksquashfs", "-", "", "-tar", "-quiet", "-no-progress"},
		"mksquashfs zstd":   {"mksquashfs", "-", "", "-tar", "-quiet", "-no-progress", "-comp", "zstd"},
		"mksquashfs plain":  {"mksquashfs", "-", "", "-tar", "-quiet", "-no-progress", "-noI", "-noD", "-noF", "-noX", "-no-duplicates"},
		"mksquashfs always": {"mksquashfs", "-", "", "-tar", "-quiet", "-no-progress", "-always-use-fragments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !real.Servers() {
				t.Skip("needs squashfs-tools and squashfs-tools-ng: SLIPWAY_TEST_REAL is not set")
			}
			path := filepath.Join(t.TempDir(), "x.squashfs")
			args := slices.Clone(args)
			if i := slices.Index(args, ""); i > 0 {
				args[i] = path
			} else {
				args = append(args, path)
			}
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Stdin = bytes.NewReader(raw)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			check(t, path)
		})
	}
}

// TestLimits checks that each limit is enforced.
func TestLimits(t *testing.T) {
	t.Parallel()
	raw := tree(t)
	path := squash(t, raw, squashfs.Compression{})
	for want, l := range map[string]unsquash.Limits{
		"too large: it has more than 100 files": {Bytes: 1 << 30, Entries: 100, Depth: 10, LinkBytes: 1 << 20},
		"bytes than fit":                        {Bytes: 500_000, Entries: 10_000, Depth: 10, LinkBytes: 1 << 20},
		"directories inside each other":         {Bytes: 1 << 30, Entries: 10_000, Depth: 0, LinkBytes: 1 << 20},
		"hard links take too much memory":       {Bytes: 1 << 30, Entries: 10_000, Depth: 10, LinkBytes: 70},
	} {
		if _, _, err := read(t, path, l); !errors.As(err, new(*unsquash.Refusal)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unsquash.Tar(ctx, io.Discard, bytes.NewReader(content), int64(len(content)), enough); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// TestRefused checks that malformed images are rejected with the reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	one := func(name string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	content, err := os.ReadFile(squash(t, one("a"), squashfs.Compression{}))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := os.ReadFile(squash(t, one("d/.wh.passwd"), squashfs.Compression{}))
	if err != nil {
		t.Fatal(err)
	}
	changed := func(at int, to ...byte) []byte {
		out := bytes.Clone(content)
		copy(out[at:], to)
		return out
	}
	for want, raw := range map[string][]byte{
		"the superblock is incomplete":         content[:50],
		"it is not squashfs":                   changed(0, 'x'),
		"it is squashfs 3.0":                   changed(28, 3),
		"its block size is wrong":              changed(12, 1),
		"compressed with xz":                   changed(20, 4),
		"in an unknown way":                    changed(20, 9),
		"a part of it extends beyond its end":  changed(64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"would delete a file of a lower":       hidden,
		"a file has no owner":                  changed(26, 0, 0),
		"leads behind the end of a block":      changed(32, 0xff, 0xff),
		"a block of its tables has an invalid": changed(int(binary.LittleEndian.Uint64(content[64:])), 0, 0),
		"a part of it extends beyond its end ": nil,
	} {
		if raw == nil {
			raw, want = content[:100], "a part of it extends beyond its end"
		}
		_, err := unsquash.Tar(t.Context(), io.Discard, bytes.NewReader(raw), int64(len(raw)), enough)
		if !errors.As(err, new(*unsquash.Refusal)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestEmptyFragment reads an image whose block of file ends has the length 0.
func TestEmptyFragment(t *testing.T) {
	t.Parallel()
	raw := emptyFragment(t)
	_, err := unsquash.Tar(t.Context(), io.Discard, bytes.NewReader(raw), int64(len(raw)), enough)
	if !errors.As(err, new(*unsquash.Refusal)) || !strings.Contains(err.Error(), "the end of a file is empty") {
		t.Error(err)
	}
}

// emptyFragment returns an image of small in which the length of the only fragment is 0.
func emptyFragment(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile(squash(t, small(t), squashfs.Compression{}))
	if err != nil {
		t.Fatal(err)
	}
	table := binary.LittleEndian.Uint64(raw[80:])
	block := binary.LittleEndian.Uint64(raw[table:])
	if header := binary.LittleEndian.Uint16(raw[block:]); header != 0x8000|16 {
		t.Fatalf("the table of fragments has the header %x, want one entry that is not compressed", header)
	}
	copy(raw[block+2+8:], make([]byte, 4))
	return raw
}

// small returns a tar of a few entries, so that the fuzzer tries many images.
func small(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "d/"}, {Typeflag: tar.TypeReg, Name: "d/a", Size: 3, PAXRecords: map[string]string{"SCHILY.xattr.user.note": "x"}},
		{Typeflag: tar.TypeLink, Name: "b", Linkname: "d/a"}, {Typeflag: tar.TypeSymlink, Name: "l", Linkname: "b"}, {Typeflag: tar.TypeFifo, Name: "p"},
	} {
		h.Mode, h.Format = 0o755, tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, strings.Repeat("x", int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzTar checks that no image makes the reader panic, exceed its limits, or fail with an
// error other than a Refusal.
func FuzzTar(f *testing.F) {
	for _, c := range []squashfs.Compression{{}, {Name: "gzip"}} {
		raw, err := os.ReadFile(squash(f, small(f), c))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add(emptyFragment(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := unsquash.Limits{Bytes: 8 << 20, Entries: 2000, Depth: 20, LinkBytes: 1 << 20}
		counted := &counter{}
		sum, err := unsquash.Tar(t.Context(), counted, bytes.NewReader(raw), int64(len(raw)), l)
		if err != nil && !errors.As(err, new(*unsquash.Refusal)) {
			t.Errorf("%v", err)
		}
		if most := l.Bytes + int64(l.Entries)*4096 + 4096; sum.Bytes > l.Bytes || counted.n > most {
			t.Errorf("%d bytes of files, %d of tar", sum.Bytes, counted.n)
		}
	})
}

type counter struct{ n int64 }

// Write counts.
func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

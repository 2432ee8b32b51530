package erofslayer_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/erofslayer"
)

// entry is an entry of a tar with its content.
type entry struct {
	tar.Header
	content []byte
}

func xattr(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out["SCHILY.xattr."+pairs[i]] = pairs[i+1]
	}
	return out
}

func noise(n int) []byte {
	r, out := rand.New(rand.NewPCG(1, uint64(n))), make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32() >> 24)
	}
	return out
}

// sample returns a layer with files of all kinds.
func sample() []entry {
	at := time.Unix(1_700_000_000, 123456789)
	out := []entry{
		{tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755, ModTime: time.Unix(0, 0)}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/empty", Mode: 0o600, Uid: 1000, Gid: 70_000, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/small", Mode: 0o644, ModTime: at, PAXRecords: xattr("user.note", "text", "security.capability", "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")}, []byte("a small file\n")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/large", Mode: 0o4755, ModTime: at}, noise(9<<20 + 7)},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/exact", Mode: 0o644, ModTime: at}, noise(4096)},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/old", Mode: 0o644, ModTime: time.Unix(-1, 0)}, []byte("x")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/attributes", Mode: 0o644, ModTime: at, PAXRecords: xattr("user.long", strings.Repeat("value", 600), "user.longer", strings.Repeat("v", 4000), "trusted.empty", "")}, nil},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "etc/link", Linkname: "small", Mode: 0o777, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "etc/long-link", Linkname: strings.Repeat("/directory", 300), Mode: 0o777, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeLink, Name: "etc/hard", Linkname: "etc/small", Mode: 0o644, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeLink, Name: "another-hard", Linkname: "etc/small", Mode: 0o644, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "dev/", Mode: 0o1777, Uid: 1, Gid: 2, ModTime: at, PAXRecords: xattr("user.of", "a directory")}, nil},
		{tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeBlock, Name: "dev/disk", Mode: 0o660, Devmajor: 259, Devminor: 70_000, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeFifo, Name: "dev/pipe", Mode: 0o600, ModTime: at}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "many/", Mode: 0o755, ModTime: at}, nil},
	}
	for i := range 700 {
		out = append(out, entry{tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("many/%0*d.é", 4+i%100, i), Mode: 0o644, ModTime: at}, []byte(fmt.Sprint(i))})
	}
	deep := ""
	for range 40 {
		deep = path.Join(deep, "deep")
		out = append(out, entry{tar.Header{Typeflag: tar.TypeDir, Name: deep + "/", Mode: 0o755, ModTime: at}, nil})
	}
	for _, base := range []string{"!", ".hidden", "-", "~"} { // before, between and after . and ..
		out = append(out, entry{tar.Header{Typeflag: tar.TypeReg, Name: deep + "/" + base, Mode: 0o644, ModTime: at}, []byte(base)})
	}
	return out
}

// write writes a tar to a writer, in pieces of a length, and returns the tar.
func write(t testing.TB, w *erofslayer.Writer, piece int, entries []entry) ([]byte, error) {
	t.Helper()
	var plain bytes.Buffer
	archive := tar.NewWriter(io.MultiWriter(&plain, pieces{w, piece}))
	for _, e := range entries {
		h := e.Header
		if h.Size = int64(len(e.content)); h.ModTime.Nanosecond() != 0 {
			h.Format = tar.FormatPAX
		}
		err := archive.WriteHeader(&h)
		if err == nil {
			err = w.Header(&h)
		}
		if err == nil && len(e.content) > 0 {
			_, err = archive.Write(e.content)
		}
		if err != nil {
			return nil, err
		}
	}
	return plain.Bytes(), errors.Join(archive.Close(), w.Close())
}

type pieces struct {
	out io.Writer
	n   int
}

func (p pieces) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, p.n) {
		if _, err := p.out.Write(part); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func newWriter(t testing.TB, out io.Writer, level zstd.EncoderLevel) *erofslayer.Writer {
	t.Helper()
	w, err := erofslayer.NewWriter(out, level, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// imageOf returns the image of a layer.
func imageOf(t testing.TB, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := write(t, newWriter(t, &out, erofslayer.Raw), 1<<16, entries); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestBytes checks that a layer depends neither on how the tar is written nor on earlier layers of the
// writer, and that its diff ID is that of the image before compression.
func TestBytes(t *testing.T) {
	t.Parallel()
	want := imageOf(t, sample())
	for _, level := range []zstd.EncoderLevel{erofslayer.Raw, zstd.SpeedDefault} {
		var out bytes.Buffer
		w := newWriter(t, nil, level)
		for _, piece := range []int{77, 1 << 20, 100_000} {
			out.Reset()
			w.Reset(&out)
			if _, err := write(t, w, piece, sample()); err != nil {
				t.Fatal(err)
			}
			got := out.Bytes()
			if level != erofslayer.Raw {
				d, err := zstd.NewReader(bytes.NewReader(got))
				if err != nil {
					t.Fatal(err)
				}
				if got, err = io.ReadAll(d); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, want) || w.DiffID() != digest.FromBytes(want) {
				t.Errorf("level %d, pieces of %d: another image of %d bytes", level, piece, len(got))
			}
		}
	}
	if got, pinned := digest.FromBytes(want).String(), "sha256:e9f5ef12a9ca0bd7f423296bfbc74777068a59ef7ffb988fb74f771bdd995545"; got != pinned {
		t.Errorf("the bytes changed: %s instead of %s: existing layers must be built again (conda/spec.LayerVersion)", got, pinned)
	}
}

// entriesOf reads a tar.
func entriesOf(t testing.TB, in io.Reader) ([]entry, error) {
	t.Helper()
	var out []entry
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return out, err
		}
		out = append(out, entry{*h, content})
	}
}

// described returns what is equal in a tar and in the tar of its image, by name.
func described(entries []entry) map[string]string {
	out := map[string]string{}
	for _, e := range entries {
		xattrs := ""
		for _, k := range []string{"user.note", "user.of", "user.long", "user.longer", "trusted.empty", "security.capability"} {
			if v, ok := e.PAXRecords["SCHILY.xattr."+k]; ok {
				xattrs += " " + k + "=" + v
			}
		}
		out[e.Name] = fmt.Sprintf("%c %o %d:%d %d %q %d:%d %s%s", e.Typeflag, e.Mode, e.Uid, e.Gid, e.ModTime.UnixNano(), e.Linkname, e.Devmajor, e.Devminor, digest.FromBytes(e.content), xattrs)
	}
	return out
}

// TestTar checks that the tar of an image has the entries of the original.
func TestTar(t *testing.T) {
	t.Parallel()
	in := append(sample(),
		entry{tar.Header{Typeflag: tar.TypeReg, Name: "many/.wh.gone"}, nil},
		entry{tar.Header{Typeflag: tar.TypeReg, Name: "dev/.wh..wh..opq", Uid: 1, Gid: 2, ModTime: time.Unix(1_700_000_000, 123456789)}, nil},
	)
	in[len(in)-2].ModTime = time.Unix(5, 0)
	var packed bytes.Buffer
	if _, err := write(t, newWriter(t, &packed, erofslayer.Raw), 1000, in); err != nil {
		t.Fatal(err)
	}
	primary := map[string]bool{"etc/small": true}
	out := erofslayer.Tar(&packed, func(name string) bool { return primary[name] })
	got, err := entriesOf(t, out)
	if err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(described(in), described(got)); diff != "" {
		t.Error(diff)
	}
	var order, want []string
	for _, e := range got {
		if len(e.content) > 0 {
			order = append(order, e.Name)
		}
	}
	for _, e := range in {
		if len(e.content) > 0 {
			want = append(want, e.Name)
		}
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("the contents have another order: %s", diff)
	}
}

// TestReplaced checks entries of one tar that replace or hide each other.
func TestReplaced(t *testing.T) {
	t.Parallel()
	file := func(name, content string) entry {
		return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(content)}
	}
	dir := func(name string) entry { return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o700}, nil} }
	for name, tc := range map[string]struct {
		in   []entry
		want string
	}{
		"parents are created":           {[]entry{file("a/b/c", "1")}, "a/ a/b/ a/b/c=1"},
		"a later file wins":             {[]entry{file("a", "1"), file("a", "22")}, "a=22"},
		"a directory keeps its files":   {[]entry{file("a/b", "1"), dir("a/")}, "a/ a/b=1"},
		"a file replaces a directory":   {[]entry{file("a/b/c", "1"), file("a", "2")}, "a=2"},
		"a directory replaces a file":   {[]entry{file("a", "1"), file("b", "2"), dir("a")}, "a/ b=2"},
		"a whiteout":                    {[]entry{file("a/.wh.b", "")}, "a/ a/.wh.b="},
		"a whiteout, then a file":       {[]entry{file(".wh.a", ""), file("a", "1")}, "a=1"},
		"a file, then a whiteout":       {[]entry{file("a", "1"), file(".wh.a", "")}, "a=1"},
		"a whiteout, then a directory":  {[]entry{file(".wh.a", ""), dir("a")}, "a/ a/.wh..wh..opq="},
		"a directory, then a whiteout":  {[]entry{file("a/b", "1"), file(".wh.a", "")}, "a/ a/.wh..wh..opq= a/b=1"},
		"a whiteout of a parent":        {[]entry{file(".wh.a", ""), file("a/b", "1")}, "a/ a/.wh..wh..opq= a/b=1"},
		"an opaque directory":           {[]entry{dir("a"), file("a/.wh..wh..opq", ""), dir("a")}, "a/ a/.wh..wh..opq="},
		"files of aufs":                 {[]entry{file(".wh..wh.aufs", ""), file("a", "1")}, "a=1"},
		"a name that begins with slash": {[]entry{file("/a", "1"), file("./b", "2"), file("c/../d", "3")}, "a=1 b=2 d=3"},
		"the root":                      {[]entry{{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700}, nil}, file("a", "1")}, "a=1"},
	} {
		got, err := entriesOf(t, erofslayer.Tar(bytes.NewReader(imageOf(t, tc.in)), nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var text []string
		for _, e := range got {
			if e.Typeflag == tar.TypeReg {
				e.Name += "=" + string(e.content)
			}
			text = append(text, e.Name)
		}
		if slices.Sort(text); strings.Join(text, " ") != tc.want {
			t.Errorf("%s: got %s, want %s", name, strings.Join(text, " "), tc.want)
		}
	}
}

// TestRefusals checks what a layer cannot have.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]tar.Header{
		"is the device 0:0":                        {Typeflag: tar.TypeChar, Name: "a"},
		"is the device 4096:0":                     {Typeflag: tar.TypeChar, Name: "a", Devmajor: 4096},
		"is no name of a file":                     {Typeflag: tar.TypeReg, Name: strings.Repeat("a", 256)},
		"is no name of a directory":                {Typeflag: tar.TypeReg, Name: strings.Repeat("a", 256) + "/b"},
		"is longer than 4096 bytes":                {Typeflag: tar.TypeReg, Name: strings.Repeat("a/", 2100)},
		"is no earlier file":                       {Typeflag: tar.TypeLink, Name: "a", Linkname: "b"},
		"the target of the link":                   {Typeflag: tar.TypeSymlink, Name: "a"},
		"unsupported type":                         {Typeflag: 'Z', Name: "a"},
		"overlayfs would interpret":                {Typeflag: tar.TypeReg, Name: "a", PAXRecords: xattr("trusted.overlay.redirect", "/b")},
		`the attribute "other.x" cannot be stored`: {Typeflag: tar.TypeReg, Name: "a", PAXRecords: xattr("other.x", "y")},
		"is too long":                              {Typeflag: tar.TypeReg, Name: "a", PAXRecords: xattr("user.x", strings.Repeat("y", 1<<16))},
		"belongs to the user -1":                   {Typeflag: tar.TypeReg, Name: "a", Uid: -1},
		"hides no name":                            {Typeflag: tar.TypeReg, Name: ".wh."},
		"is below a file":                          {Typeflag: tar.TypeReg, Name: "file/b"},
		"the root is not a directory":              {Typeflag: tar.TypeReg, Name: "."},
	} {
		w := newWriter(t, io.Discard, erofslayer.Raw)
		if err := w.Header(&tar.Header{Typeflag: tar.TypeReg, Name: "file"}); err != nil {
			t.Fatal(err)
		}
		if err := w.Header(&h); !errors.As(err, new(*erofslayer.Refusal)) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	w := newWriter(t, io.Discard, erofslayer.Raw)
	if err := w.Header(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("short")); err != nil {
		t.Fatal(err)
	}
	if w.Header(&tar.Header{Typeflag: tar.TypeReg, Name: "b"}) == nil || w.Close() == nil {
		t.Error("a truncated file is accepted")
	}
}

// TestDamaged checks that every truncated image is an error.
func TestDamaged(t *testing.T) {
	t.Parallel()
	whole := imageOf(t, sample()[:12])
	for n := 0; n < len(whole)-4096; n += len(whole) / 100 {
		if _, err := entriesOf(t, erofslayer.Tar(bytes.NewReader(whole[:n]), nil)); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(whole))
		}
	}
}

// FuzzTar checks that no image makes the reader panic, and that the tar of an image that can be read
// becomes an image with the same tar.
func FuzzTar(f *testing.F) {
	small := slices.DeleteFunc(sample()[:16], func(e entry) bool { // large inputs take long to minimize
		return len(e.content) > 100 || len(e.Linkname) > 100 || e.Name == "etc/attributes"
	})
	f.Add(imageOf(f, small[:2]))
	f.Add(imageOf(f, append(small, entry{tar.Header{Typeflag: tar.TypeReg, Name: "etc/.wh.gone"}, nil})))
	f.Fuzz(func(t *testing.T, image []byte) {
		first, err := entriesOf(t, erofslayer.Tar(bytes.NewReader(image), nil))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if _, err := write(t, newWriter(t, &out, erofslayer.Raw), 1<<16, first); err != nil {
			return // the image has what layers cannot have
		}
		again, err := entriesOf(t, erofslayer.Tar(&out, nil))
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > len(first) {
			t.Errorf("%d entries became %d", len(first), len(again))
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	entries := sample()
	w := newWriter(b, io.Discard, erofslayer.Raw)
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(io.Discard)
		plain, err := write(b, w, 1<<16, entries)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(plain)))
	}
}

package listing

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/heap"
)

func archive(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
}

func layerOf(raw []byte) layertar.Layer {
	return layertar.Layer{Name: "sha256:test", Size: int64(len(raw)), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}}
}

func query(t testing.TB, a Options) Query {
	t.Helper()
	q, err := NewQuery(a)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestRead lists each kind of entry with each compression.
func TestRead(t *testing.T) {
	t.Parallel()
	raw := archive(t,
		&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		&tar.Header{Typeflag: tar.TypeDir, Name: "./usr/bin/", Mode: 0o755},
		&tar.Header{Typeflag: tar.TypeReg, Name: "/usr/bin/env", Mode: 0o4755, Size: 700},
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "../usr/bin", Mode: 0o777},
		&tar.Header{Typeflag: tar.TypeLink, Name: "usr/bin/again", Linkname: "./usr/bin/env", Mode: 0o755},
		&tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666},
		&tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Mode: 0o660},
		&tar.Header{Typeflag: tar.TypeFifo, Name: "run/pipe", Mode: 0o600},
		file("etc/.wh.passwd", 0), file("var/.wh..wh..opq", 0), file(".wh..wh.plnk", 0), file("bad\xffname", 0),
		file(".no.prefetch.landmark", 1), file("stargz.index.json", 2),
	)
	packed, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Path: ".", Kind: Directory, Mode: 0o755},
		{Path: "bad\uFFFDname", Kind: Regular, Mode: 0o644},
		{Path: "bin", Kind: Symlink, Link: "../usr/bin", Mode: 0o777},
		{Path: "dev/null", Kind: Character, Mode: 0o666},
		{Path: "dev/sda", Kind: Block, Mode: 0o660},
		{Path: "etc/passwd", Kind: Removed},
		{Path: "run/pipe", Kind: Fifo, Mode: 0o600},
		{Path: "usr/bin", Kind: Directory, Mode: 0o755},
		{Path: "usr/bin/again", Kind: Hardlink, Link: "usr/bin/env", Mode: 0o755},
		{Path: "usr/bin/env", Kind: Regular, Size: 700, Mode: 0o4755},
		{Path: "var", Kind: Emptied},
	}
	for name, stored := range map[string][]byte{"plain": raw, "gzip": zipped(t, raw), "zstd": packed.EncodeAll(raw, nil), "two streams of gzip": append(zipped(t, raw[:1024]), zipped(t, raw[1024:])...)} {
		page, all, err := Read(t.Context(), layerOf(stored), query(t, Options{}))
		if diff := cmp.Diff(want, page.Files, cmpopts.IgnoreUnexported(File{})); err != nil || all == nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if page.Entries != len(want) || page.Bytes != 700 || page.Matching != len(want) || page.Next != "" {
			t.Errorf("%s: %+v", name, page.Summary)
		}
	}
}

// TestReadRefuses reads layers that are not archives, or that exceed a limit.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	sound := archive(t, file("a", 5000))
	for name, c := range map[string]struct {
		in   []byte
		says string
	}{
		"no archive":    {bytes.Repeat([]byte("no archive "), 100), "is damaged"},
		"half a stream": {zipped(t, sound)[:60], "is damaged"},
		"half a file":   {sound[:1000], "is damaged"},
		"long path":     {archive(t, file(strings.Repeat("d/", limits.ListedPath/2)+"f", 0)), "more than 4096 bytes"},
		"long link":     {archive(t, &tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: strings.Repeat("x", 5000)}), "more than 4096 bytes"},
		"no name":       {archive(t, file("a/.wh.", 0)), "whiteout without a name"},
		"bomb":          {zipped(t, zeros(t, 101<<20)), "times its stored size"},
	} {
		_, all, err := Read(t.Context(), layerOf(c.in), query(t, Options{}))
		refusal, ok := errors.AsType[*layertar.LayerError](err)
		if !ok || !strings.Contains(refusal.Error(), c.says) || all != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// zeros returns an archive with one file of zeros.
func zeros(t testing.TB, size int64) []byte {
	t.Helper()
	return archive(t, file("zeros", size))
}

// many returns a layer with n files that is generated while it is read.
func many(n int) layertar.Layer {
	return layertar.Layer{Name: "sha256:many", Size: 1 << 30, Open: func(ctx context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			buffer := bufio.NewWriterSize(w, 1<<20)
			out := tar.NewWriter(buffer)
			var err error
			for i := 0; i < n && err == nil; i++ {
				err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("opt/conda/lib/python3.13/site-packages/package/%07d.py", i*7919%n)})
			}
			_ = w.CloseWithError(errors.Join(err, out.Close(), buffer.Flush()))
		}()
		return r, nil
	}}
}

// same returns a layer with n entries for the same file.
func same(t *testing.T, n int) layertar.Layer {
	t.Helper()
	const together = 1000
	some := bytes.Repeat(archive(t, file("x", 0))[:512], together)
	return layertar.Layer{Name: "sha256:same", Size: 1 << 30, Open: func(context.Context) (io.ReadCloser, error) {
		parts := make([]io.Reader, n/together, n/together+2)
		for i := range parts {
			parts[i] = bytes.NewReader(some)
		}
		end := make([]byte, 1024)
		return io.NopCloser(io.MultiReader(append(parts, bytes.NewReader(some[:512*(n%together)]), bytes.NewReader(end))...)), nil
	}}
}

// TestManyEntries reads the maximum number of entries, of which few are retained, and one more.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	page, all, err := Read(t.Context(), many(150_000), query(t, Options{Max: 3}))
	if err != nil || all != nil || page.Entries != 150_000 || len(page.Files) != 3 || !strings.HasSuffix(page.Files[2].Path, "0000002.py") {
		t.Errorf("%+v, %v", page, err)
	}
	if _, _, err := Read(t.Context(), same(t, limits.ListedEntries+1), query(t, Options{})); err == nil || !strings.Contains(err.Error(), "entries") {
		t.Errorf("one entry above the limit: %v", err)
	}
}

// TestPages reads listings page by page, from the cache and from the layer.
func TestPages(t *testing.T) {
	t.Parallel()
	var entries []*tar.Header
	for i := range 100 {
		entries = append(entries, file(fmt.Sprintf("d/%02d", i*37%100), int64(i%7)))
	}
	entries = append(entries, file("d/50", 3), file("d/50", 3), file("OTHER/x", 1)) // three entries with one path
	l := layerOf(zipped(t, archive(t, entries...)))
	for _, a := range []Options{{Max: 1}, {Max: 9}, {Max: 103}, {Max: 9, Sort: "size"}, {Max: 4, Filter: "D/5"}, {Max: 4, Filter: "other", Sort: "size"}, {Filter: "nothing"}} {
		whole, all, err := Read(t.Context(), l, query(t, Options{Filter: a.Filter, Sort: a.Sort}))
		if err != nil || whole.Next != "" {
			t.Fatalf("%v, %v", whole.Next, err)
		}
		if !slices.IsSortedFunc(whole.Files, query(t, a).compare) || whole.Matching != len(whole.Files) {
			t.Errorf("%+v: %v", a, whole.Files)
		}
		var stored, kept []File
		for next := ""; ; {
			a.PageToken = next
			q := query(t, a)
			page, _, err := Read(t.Context(), l, q)
			if err != nil {
				t.Fatal(err)
			}
			again := all.Page(q)
			stored, kept = append(stored, page.Files...), append(kept, again.Files...)
			if page.Next != again.Next || page.Matching != whole.Matching {
				t.Errorf("%+v: got %+v from the layer, %+v from the cache", a, page, again)
			}
			if next = page.Next; next == "" {
				break
			}
		}
		if diff := cmp.Diff(whole.Files, stored, cmp.AllowUnexported(File{})); diff != "" {
			t.Errorf("%+v: %s", a, diff)
		}
		if diff := cmp.Diff(whole.Files, kept, cmp.AllowUnexported(File{})); diff != "" {
			t.Errorf("%+v, from the cache: %s", a, diff)
		}
	}
}

// TestLongNames checks that a page has at most the files that fit into a response, and that a
// listing that is too large is not cached.
func TestLongNames(t *testing.T) {
	t.Parallel()
	var entries []*tar.Header
	for i := range 5000 {
		entries = append(entries, file(fmt.Sprintf("%04d/%s", i, strings.Repeat("n", 4000)), 0))
	}
	l := layerOf(zipped(t, archive(t, entries...)))
	page, all, err := Read(t.Context(), l, query(t, Options{Max: limits.ListingMost}))
	if err != nil || all != nil || page.Next == "" || len(page.Files) != limits.ListingPage/(64+4005) {
		t.Errorf("%d files, then %v, %v", len(page.Files), page.Next != "", err)
	}
	rest, _, err := Read(t.Context(), l, query(t, Options{Max: limits.ListingMost, PageToken: page.Next}))
	if err != nil || rest.Files[0].Path[:4] != fmt.Sprintf("%04d", len(page.Files)) {
		t.Errorf("the next page begins with %q, %v", rest.Files[0].Path[:4], err)
	}
}

func TestNewQueryRefuses(t *testing.T) {
	t.Parallel()
	for _, a := range []Options{
		{Max: -1}, {Max: limits.ListingMost + 1}, {Sort: "name"}, {Filter: strings.Repeat("x", limits.ListingFilter+1)},
		{PageToken: "!"}, {PageToken: "MTI"}, {PageToken: strings.Repeat("A", limits.ListingToken+1)},
	} {
		if _, err := NewQuery(a); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// FuzzPageToken checks that each accepted token is the encoding of its position.
func FuzzPageToken(f *testing.F) {
	f.Add(File{Path: "usr/bin/env", Size: 5, at: 3}.token())
	f.Add(File{Path: "with:colon\n", at: 1}.token())
	f.Add("")
	f.Add("LTE6MTph")
	f.Fuzz(func(t *testing.T, text string) {
		place, err := readToken(text)
		if err != nil {
			return
		}
		if again, err := readToken(place.token()); err != nil || again != place {
			t.Errorf("%q decodes to %v, and again to %v, %v", text, place, again, err)
		}
	})
}

// FuzzRead checks that no layer uses memory out of proportion, and that each listed file is valid
// in a response.
func FuzzRead(f *testing.F) {
	f.Add(archive(f, file("a", 1), file("d/.wh.x", 0), file("d/.wh..wh..opq", 0)))
	f.Add(zipped(f, archive(f, &tar.Header{Typeflag: tar.TypeSymlink, Name: "s", Linkname: "\xff"}, file(strings.Repeat("long/", 100)+"f", 0))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		heap.Within(t, 64, 80<<20, raw, func() {
			page, _, err := Read(t.Context(), layerOf(raw), query(t, Options{}))
			if err != nil {
				return
			}
			for _, file := range page.Files {
				if strings.ToValidUTF8(file.Path+file.Link, "") != file.Path+file.Link || file.Path == "" || file.Size < 0 || file.Kind.String() == "" {
					t.Errorf("%+v", file)
				}
			}
		})
	})
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Read(b.Context(), many(100_000), query(b, Options{Sort: "size"})); err != nil {
			b.Fatal(err)
		}
	}
}

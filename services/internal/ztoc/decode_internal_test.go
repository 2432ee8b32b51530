package ztoc

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"math/rand/v2"
	"testing"
)

// encoded returns the zTOCs of a tar and of its gzip.
func encoded(tb testing.TB, raw []byte) map[string]*Ztoc {
	tb.Helper()
	plain, err := FromTar(bytes.NewReader(raw))
	if err != nil {
		tb.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(raw)
	if err := errors.Join(err, w.Close()); err != nil {
		tb.Fatal(err)
	}
	gz, err := FromGzip(&packed)
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]*Ztoc{"tar": plain, "gzip": gz}
}

// TestParse checks that a parsed zTOC has the files and spans of the one that was encoded.
func TestParse(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3*SpanSize+12345)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	var large bytes.Buffer
	w := tar.NewWriter(&large)
	for _, name := range []string{"one", "two"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(noise))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(noise); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"kinds": headers(t, tar.FormatPAX), "large": large.Bytes(), "empty": make([]byte, 1024)} {
		for algorithm, toc := range encoded(t, raw) {
			got, err := Parse(toc.Marshal("slipway"))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, algorithm, err)
			}
			if got.Spans() != toc.Spans() || len(got.Entries) != toc.Files() {
				t.Fatalf("%s, %s: %d spans and %d files instead of %d and %d", name, algorithm, got.Spans(), len(got.Entries), toc.Spans(), toc.Files())
			}
			for i, e := range got.Entries {
				f := toc.files[i]
				want := f.flag
				if want == tar.TypeChar {
					want = KindOther
				}
				if e != (Entry{Name: f.name, Link: f.link, Offset: f.offset, Size: f.size, Kind: want}) {
					t.Errorf("%s, %s: %+v instead of %+v", name, algorithm, e, f)
				}
			}
			if got.Span(0) != 0 || got.Span(toc.Uncompressed+1<<40) != got.Spans()-1 {
				t.Errorf("%s, %s: the first span is %d, and the last %d", name, algorithm, got.Span(0), got.Span(toc.Uncompressed+1<<40))
			}
			for i, start := range got.starts {
				if got.Span(start) != i || i > 0 && got.Span(start-1) != i-1 {
					t.Errorf("%s, %s: the span %d begins in %d", name, algorithm, i, got.Span(start))
				}
			}
		}
	}
}

// FuzzParse checks that malformed zTOCs are rejected, and that the files and spans of others are within bounds.
func FuzzParse(f *testing.F) {
	for _, toc := range encoded(f, headers(f, tar.FormatPAX)) {
		f.Add(toc.Marshal("slipway"))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Parse(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		for _, e := range got.Entries {
			first, last := got.Span(e.Offset), got.Span(e.Offset+e.Size)
			if first < 0 || last < first || last >= got.Spans() {
				t.Fatalf("%q has the spans %d to %d of %d", e.Name, first, last, got.Spans())
			}
		}
	})
}

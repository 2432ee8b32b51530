package ztoc

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// headers returns a tar with several kinds of headers.
func headers(tb testing.TB, format tar.Format) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "a/b", Size: 5, Uid: 1000, Gname: "group"},
		{Typeflag: tar.TypeReg, Name: string(bytes.Repeat([]byte("name/"), 30)) + "c", Size: 512},
		{Typeflag: tar.TypeSymlink, Name: "a/d", Linkname: "b"},
		{Typeflag: tar.TypeLink, Name: "a/e", Linkname: "a/b"},
		{Typeflag: tar.TypeChar, Name: "a/f", Devmajor: 1, Devminor: 3},
	} {
		h.Format = format
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// FuzzTOC checks that the entries of any tar are those that archive/tar reads.
func FuzzTOC(f *testing.F) {
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU} {
		f.Add(headers(f, format))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := newTOC()
		var err error
		for rest := raw; len(rest) > 0 && err == nil; { // in small parts
			n := min(len(rest), 100)
			_, err = got.Write(rest[:n])
			rest = rest[n:]
		}
		if err == nil {
			err = got.finish()
		}
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		in := bytes.NewReader(raw)
		r := tar.NewReader(in)
		var want []file
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("archive/tar rejects a tar of %d entries: %v", len(got.files), err)
			}
			entry, err := newFile(h, int64(len(raw)-in.Len()))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, entry)
		}
		if d := cmp.Diff(want, got.files, cmp.AllowUnexported(file{}, details{})); d != "" {
			t.Error(d)
		}
		if size := int64(len(raw) - in.Len()); size != got.size {
			t.Errorf("the tar has %d bytes, not %d", size, got.size)
		}
	})
}

// FuzzInflate checks that any gzip stream decompresses to what compress/gzip reads.
func FuzzInflate(f *testing.F) {
	for level := -2; level <= 9; level++ {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, level)
		if err != nil {
			f.Fatal(err)
		}
		w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
		if _, err := w.Write(headers(f, tar.FormatPAX)); err != nil {
			f.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write(headers(f, tar.FormatGNU)[:3000]); err != nil {
			f.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
		f.Add(append(bytes.Clone(out.Bytes()), out.Bytes()...))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		var consumed, got bytes.Buffer
		s := &scanner{}
		s.toc, s.sum = newTOC(), crc32.NewIEEE()
		s.spans.begin()
		s.inflater = newInflater(bytes.NewReader(packed), func(p []byte) { consumed.Write(p) }, func(p []byte) error {
			_, _ = s.sum.Write(p)
			got.Write(p)
			if got.Len() > 16<<20 {
				return invalidf("it is too large for this test")
			}
			return nil
		})
		err := s.members()
		if err == nil && !bytes.Equal(consumed.Bytes(), packed) {
			t.Error("the consumed bytes are not the stream")
		}
		if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, errTruncated) {
			t.Fatal(err)
		}
		r, other := gzip.NewReader(bytes.NewReader(packed))
		var want []byte
		if other == nil {
			want, other = io.ReadAll(io.LimitReader(r, 16<<20))
		}
		switch {
		case err == nil && other != nil:
			t.Errorf("compress/gzip rejects the stream: %v", other)
		case err == nil && !bytes.Equal(got.Bytes(), want):
			t.Error("the output differs from that of compress/gzip")
		case err != nil && other == nil && got.Len() <= 16<<20 && !stricter(packed):
			t.Errorf("compress/gzip reads the stream: %v", err)
		}
	})
}

// FuzzRead checks that reading the zTOC of any layer fails with ErrInvalid or succeeds, and
// that a zTOC can be encoded.
func FuzzRead(f *testing.F) {
	f.Add(headers(f, tar.FormatPAX))
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(headers(f, tar.FormatUSTAR)); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, layer []byte) {
		for _, read := range []func(io.Reader) (*Ztoc, error){FromGzip, FromTar} {
			z, err := read(bytes.NewReader(layer))
			if err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Fatal(err)
				}
				continue
			}
			if len(z.Marshal("test")) == 0 || z.Spans() == 0 {
				t.Error("an empty zTOC")
			}
		}
	})
}

// stricter reports whether zlib, and therefore this package, may reject a stream that
// compress/gzip reads: one with reserved flags in a header.
func stricter(packed []byte) bool {
	return len(packed) > 3 && packed[3]&flagReserved != 0
}

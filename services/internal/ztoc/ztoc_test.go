package ztoc_test

import (
	"archive/tar"
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"slipway.dev/services/internal/ztoc"
)

// content returns n bytes whose compression ratio changes: text, repetitions, and random
// bytes, so that the compressor uses each kind of block and continues some.
func content(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, n+1<<17)
	for len(out) < n {
		size := 1 + r.IntN(1<<r.IntN(18))
		switch r.IntN(5) {
		case 0:
			for range size {
				out = append(out, byte(r.Uint32()))
			}
		case 1:
			out = append(out, bytes.Repeat([]byte{byte(r.Uint32())}, size)...)
		case 2:
			for range size / 8 {
				out = fmt.Appendf(out, "%x ", r.Uint64()>>r.IntN(64))
			}
		case 3: // random bytes of a small alphabet have no matches and a shorter code
			for range size {
				out = append(out, "abcdefghijklmnopqrstuvwxyz"[r.IntN(26)])
			}
		case 4:
			if len(out) > 0 {
				from := r.IntN(len(out))
				out = append(out, out[from:min(len(out), from+size)]...)
			}
		}
	}
	return out[:n]
}

// archive returns a tar of about size bytes.
func archive(tb testing.TB, r *rand.Rand, size int) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	put := func(h *tar.Header, content []byte) {
		if h.Size = int64(len(content)); h.ModTime.IsZero() {
			h.ModTime = time.Unix(1_700_000_000, 0)
		}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			tb.Fatal(err)
		}
	}
	put(&tar.Header{Typeflag: tar.TypeDir, Name: "opt/", Mode: 0o755}, nil)
	put(&tar.Header{Typeflag: tar.TypeSymlink, Name: "opt/link", Linkname: "file-0", Mode: 0o777}, nil)
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "opt/" + string(bytes.Repeat([]byte("long/"), 60)) + "ä", Mode: 0o644, Uid: 3_000_000, Uname: "user", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}, []byte("x"))
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "opt/gnu" + string(bytes.Repeat([]byte("/long"), 60)), Format: tar.FormatGNU, Mode: 0o644}, []byte("y"))
	put(&tar.Header{Typeflag: tar.TypeFifo, Name: "opt/fifo"}, nil)
	put(&tar.Header{Typeflag: tar.TypeChar, Name: "opt/null", Devmajor: 1, Devminor: 3, ModTime: time.Unix(1, 500_000_000), Format: tar.FormatPAX}, nil)
	for i := 0; out.Len() < size; i++ {
		n := min(size-out.Len(), r.IntN(1<<r.IntN(23)+1))
		put(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("opt/file-%d", i), Mode: 0o755, Gname: "staff"}, content(r, n))
	}
	put(&tar.Header{Typeflag: tar.TypeLink, Name: "opt/hard", Linkname: "opt/file-0"}, nil)
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// record compresses a tar with w in writes of random sizes.
func record(tb testing.TB, w *ztoc.Writer, r *rand.Rand, raw []byte) {
	tb.Helper()
	for len(raw) > 0 {
		n := min(len(raw), 1+r.IntN(1<<r.IntN(20)))
		if _, err := w.Write(raw[:n]); err != nil {
			tb.Fatal(err)
		}
		raw = raw[n:]
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
}

// TestWriter checks that the Writer compresses as the compressor does, and records the zTOC
// that reading the layer finds.
func TestWriter(t *testing.T) {
	t.Parallel()
	for level := 1; level <= 6; level++ {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(level), 7))
			w, err := ztoc.NewWriter(nil, level)
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{0, 5 << 20, 64*65535 - 3072, 24 << 20, 100, 21 << 20} {
				raw := archive(t, r, size)
				var want, got bytes.Buffer
				plain, err := gzip.NewWriterLevel(&want, level)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := plain.Write(raw); err != nil {
					t.Fatal(err)
				}
				if err := plain.Close(); err != nil {
					t.Fatal(err)
				}
				w.Reset(&got)
				record(t, w, r, raw)
				if !bytes.Equal(got.Bytes(), want.Bytes()) {
					t.Fatalf("a layer of %d bytes is compressed differently", size)
				}
				scanned, err := ztoc.FromGzip(bytes.NewReader(got.Bytes()))
				if err != nil {
					t.Fatal(err)
				}
				if size > 20<<20 && scanned.Spans() < size>>23 {
					t.Errorf("a layer of %d bytes has only %d spans", size, scanned.Spans())
				}
				if !bytes.Equal(w.Ztoc().Marshal("test"), scanned.Marshal("test")) {
					t.Errorf("the recorded zTOC of a layer of %d bytes differs from the one that is read", size)
				}
			}
		})
	}
}

// TestInvalid checks that damaged layers are rejected.
func TestInvalid(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	raw := archive(t, r, 1<<20)
	var packed bytes.Buffer
	w := stdgzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ztoc.FromGzip(bytes.NewReader(packed.Bytes())); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		damaged := bytes.Clone(packed.Bytes())
		damaged[10+r.IntN(len(damaged)-10)] ^= 1 << r.IntN(8)
		if _, err := ztoc.FromGzip(bytes.NewReader(damaged)); !errors.Is(err, ztoc.ErrInvalid) {
			t.Fatalf("damage %d: %v", i, err)
		}
		cut := packed.Bytes()[:r.IntN(packed.Len())]
		if _, err := ztoc.FromGzip(bytes.NewReader(cut)); !errors.Is(err, ztoc.ErrInvalid) {
			t.Fatalf("%d bytes: %v", len(cut), err)
		}
	}
	if _, err := ztoc.FromGzip(io.MultiReader(bytes.NewReader(packed.Bytes()), bytes.NewReader([]byte("x")))); !errors.Is(err, ztoc.ErrInvalid) {
		t.Errorf("trailing data: %v", err)
	}
	if _, err := ztoc.FromTar(bytes.NewReader(raw[:len(raw)-2000])); !errors.Is(err, ztoc.ErrInvalid) {
		t.Errorf("truncated tar: %v", err)
	}
}

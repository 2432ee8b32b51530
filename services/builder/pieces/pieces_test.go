package pieces_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"slipway.dev/services/builder/pieces"
)

// TestReadAt compares a joined file with a copy of its parts.
func TestReadAt(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var f pieces.File
		var want []byte
		source := bytes.Repeat([]byte("0123456789abcdef"), 16)
		from := []io.ReaderAt{bytes.NewReader(source), bytes.NewReader(source[7:])}
		for range r.IntN(9) {
			which, offset := r.IntN(2), r.IntN(200)
			length := r.IntN(len(source) - 7 - offset)
			f.Append(from[which], int64(offset), int64(length))
			want = append(want, source[7*which+offset:7*which+offset+length]...)
		}
		if f.Size() != int64(len(want)) {
			t.Fatalf("it has %d bytes, want %d", f.Size(), len(want))
		}
		if err := iotest.TestReader(io.NewSectionReader(&f, 0, f.Size()), want); err != nil {
			t.Fatal(err)
		}
		if n, err := f.ReadAt(make([]byte, 8), f.Size()); n != 0 || err != io.EOF { //nolint:errorlint // as readers return it
			t.Errorf("behind the end it reads %d bytes, %v", n, err)
		}
	}
}

// TestShorter reads a file that has become shorter, and one whose reader fails.
func TestShorter(t *testing.T) {
	t.Parallel()
	var f pieces.File
	f.Append(strings.NewReader("abc"), 0, 2)
	f.Append(strings.NewReader("abc"), 1, 5)
	p := make([]byte, 7)
	if n, err := f.ReadAt(p, 0); !errors.Is(err, io.ErrUnexpectedEOF) || string(p[:n]) != "abbc" {
		t.Errorf("it reads %q, %v", p[:n], err)
	}
	if _, err := f.ReadAt(p, -1); err == nil {
		t.Error("a negative position is read")
	}
}

// TestJoined appends ranges of a joined file, of which the parts are appended.
func TestJoined(t *testing.T) {
	t.Parallel()
	var inner pieces.File
	inner.Append(strings.NewReader("xabcx"), 1, 3)
	inner.Append(strings.NewReader("defg"), 0, 4)
	for from := range int64(7) {
		for to := from + 1; to <= 7; to++ {
			var f pieces.File
			f.Append(strings.NewReader("<"), 0, 1)
			f.Append(&inner, from, to-from)
			f.Append(strings.NewReader(">"), 0, 1)
			want := "<" + "abcdefg"[from:to] + ">"
			if err := iotest.TestReader(io.NewSectionReader(&f, 0, f.Size()), []byte(want)); err != nil {
				t.Fatal(err)
			}
			got := ""
			f.Each(func(in io.ReaderAt, offset, length int64) {
				if _, ok := in.(*pieces.File); ok {
					t.Error("a part is a joined file")
				}
				p := make([]byte, length)
				_, _ = in.ReadAt(p, offset)
				got += string(p)
			})
			if got != want {
				t.Errorf("the parts are %q, want %q", got, want)
			}
		}
	}
}

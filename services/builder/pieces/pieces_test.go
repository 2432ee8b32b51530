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

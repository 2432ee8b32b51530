package index_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/testkit/condadata"
)

func TestBackgroundWriterWritesEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	for _, size := range []int{0, 1, index.BlockSize - 1, index.BlockSize, index.BlockSize + 1, 3*index.BlockSize + 7} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 7 >> 3)
		}
		for _, piece := range []int{1000, index.BlockSize, 4 * index.BlockSize} {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if writing, ending := index.WriteAll(f, want, piece); writing != nil || ending != nil {
				t.Errorf("%d bytes in pieces of %d: %v, %v", size, piece, writing, ending)
			}
			_ = f.Close()
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes in pieces of %d: read %d, %v", size, piece, len(got), err)
			}
		}
	}
}

func TestUploadReportsFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("requires /dev/full")
	}
	defer func() { _ = full.Close() }()
	if writing, ending := index.WriteAll(full, make([]byte, 5*index.BlockSize), 1000); !errors.Is(writing, syscall.ENOSPC) || !errors.Is(ending, syscall.ENOSPC) {
		t.Errorf("much: %v, %v", writing, ending)
	}
	if writing, ending := index.WriteAll(full, []byte("little"), 1000); writing != nil || !errors.Is(ending, syscall.ENOSPC) {
		t.Errorf("little: %v, %v", writing, ending)
	}
}

func TestIndexWithManyBlocks(t *testing.T) {
	t.Parallel()
	const records = 8000
	var text bytes.Buffer
	condadata.Large(t, &text, "bioconda", "linux-64", records)
	x := build(t, text.String())
	read := 0
	for name := range x.Names() {
		list, err := x.Records(name)
		if err != nil {
			t.Fatal(err)
		}
		read += len(list)
	}
	if x.Size() < 3*index.BlockSize || x.Meta().Records != records || x.Meta().Skipped != 0 || read != records {
		t.Errorf("%d bytes, %+v, %d records read", x.Size(), x.Meta(), read)
	}
}

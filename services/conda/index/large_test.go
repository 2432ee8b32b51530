package index_test

import (
	"bytes"
	"path/filepath"
	"runtime"
	"testing"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/testkit/condadata"
)

// records is the number of records of a channel as large as conda-forge's largest folder.
const records = 880_000

// BenchmarkBuild creates the index of a large channel.
func BenchmarkBuild(b *testing.B) {
	text := large(b)
	path := filepath.Join(b.TempDir(), "x.idx")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := index.Build(path, bytes.NewReader(text), index.Meta{}, done); err != nil {
			b.Fatal(err)
		}
	}
	runtime.KeepAlive(text)
}

// BenchmarkOpen opens the index of a large channel.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.idx")
	if _, err := index.Build(path, bytes.NewReader(large(b)), index.Meta{}, done); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := index.Open(path, place()); err != nil {
			b.Fatal(err)
		}
	}
}

func large(b *testing.B) []byte {
	b.Helper()
	var text bytes.Buffer
	condadata.Large(b, &text, "conda-forge", "linux-64", records)
	return text.Bytes()
}

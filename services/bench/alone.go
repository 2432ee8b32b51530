package main

import (
	"archive/zip"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// recompress decodes what the artifacts of a folder hold, and encodes it as layers are:
// what making layers of them takes at the least.
func recompress(dir string) {
	for _, file := range must(filepath.Glob(filepath.Join(dir, "*.conda"))) {
		z := must(zip.OpenReader(file))
		for _, m := range z.File {
			if strings.HasPrefix(m.Name, "pkg-") {
				recode(m)
			}
		}
		check(z.Close())
	}
}

func recode(m *zip.File) {
	in := must(m.Open())
	defer in.Close()
	raw := must(zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)))
	defer raw.Close()
	out := must(gzip.NewWriterLevel(io.Discard, 6))
	must(io.Copy(out, raw))
	check(out.Close())
}

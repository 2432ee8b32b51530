package main

import (
	"archive/zip"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// recompress decodes what the artifacts of a folder hold, and encodes it as layers are,
// two at a time as a worker does: what making layers of them takes at the least.
func recompress(dir string) {
	var g errgroup.Group
	g.SetLimit(2)
	for _, file := range must(filepath.Glob(filepath.Join(dir, "*.conda"))) {
		g.Go(func() error { return caught(func() { recompressOne(file) }) })
	}
	check(g.Wait())
}

func recompressOne(file string) {
	z := must(zip.OpenReader(file))
	defer z.Close()
	for _, m := range z.File {
		if strings.HasPrefix(m.Name, "pkg-") {
			recode(m)
		}
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

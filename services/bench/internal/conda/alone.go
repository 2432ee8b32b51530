package conda

import (
	"archive/zip"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/bench/internal/must"
)

// recompress decompresses the artifacts of a folder and compresses them as layers, two
// concurrently like a worker. It measures the minimum time for building layers from them.
func recompress(dir string) {
	var g errgroup.Group
	g.SetLimit(2)
	for _, file := range must.Get(filepath.Glob(filepath.Join(dir, "*.conda"))) {
		g.Go(func() error { return must.Caught(func() { recompressOne(file) }) })
	}
	must.Do(g.Wait())
}

func recompressOne(file string) {
	z := must.Get(zip.OpenReader(file))
	defer z.Close()
	for _, m := range z.File {
		if strings.HasPrefix(m.Name, "pkg-") {
			recode(m)
		}
	}
}

func recode(m *zip.File) {
	in := must.Get(m.Open())
	defer in.Close()
	raw := must.Get(zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)))
	defer raw.Close()
	out := must.Get(gzip.NewWriterLevel(io.Discard, 6))
	must.Get(io.Copy(out, raw))
	must.Do(out.Close())
}

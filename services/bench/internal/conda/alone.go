package conda

import (
	"archive/tar"
	"archive/zip"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/bench/internal/must"
)

// recompress decompresses the artifacts of a folder and compresses them as layers, two
// concurrently like a worker, and computes the digests that an image needs. It measures the
// minimum time for building layers from them.
func recompress(dir string) {
	var g errgroup.Group
	g.SetLimit(2)
	for _, file := range must.Get(filepath.Glob(filepath.Join(dir, "*.conda"))) {
		g.Go(func() error { return must.Caught(func() { recompressOne(file) }) })
	}
	must.Do(g.Wait())
}

func recompressOne(file string) {
	f := must.Get(os.Open(file))
	defer f.Close()
	size := must.Get(io.Copy(sha256.New(), f)) // the digest of the artifact
	for _, m := range must.Get(zip.NewReader(f, size)).File {
		if strings.HasPrefix(m.Name, "pkg-") {
			recode(m)
		}
	}
}

// recode compresses the content of an archive again. It computes the digests of the layer,
// compressed and uncompressed, and of each file.
func recode(m *zip.File) {
	in := must.Get(m.Open())
	defer in.Close()
	raw := must.Get(zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)))
	defer raw.Close()
	out := must.Get(gzip.NewWriterLevel(sha256.New(), 6))
	layer := io.TeeReader(raw, io.MultiWriter(sha256.New(), out))
	files, sum := tar.NewReader(layer), sha256.New()
	for _, err := files.Next(); err != io.EOF; _, err = files.Next() {
		must.Do(err)
		sum.Reset()
		must.Get(io.Copy(sum, files))
		_ = sum.Sum(nil)
	}
	must.Get(io.Copy(io.Discard, layer))
	must.Do(out.Close())
}

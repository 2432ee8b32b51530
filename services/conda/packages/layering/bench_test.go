package layering_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
)

// BenchmarkLay creates the layers of real packages. "alone" only unpacks the same artifacts
// and packs their files. The difference to "layers" is this package's own cost.
func BenchmarkLay(b *testing.B) {
	files, err := filepath.Glob(packages + "/lib*.conda")
	if err != nil || len(files) == 0 {
		b.Fatal(err)
	}
	raws := make([][]byte, len(files))
	for i, f := range files {
		if raws[i], err = os.ReadFile(f); err != nil {
			b.Fatal(err)
		}
	}
	for name, one := range map[string]func(name string, raw []byte) (int64, error){"layers": layOne, "alone": recompress} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				total := int64(0)
				for i, raw := range raws {
					n, err := one(filepath.Base(files[i]), raw)
					if err != nil {
						b.Fatal(err)
					}
					total += n
				}
				b.SetBytes(total)
			}
		})
	}
}

func layOne(name string, raw []byte) (int64, error) {
	ctx := context.Background()
	a, err := artifact.Open(ctx, bytes.NewReader(raw), int64(len(raw)), name)
	if err != nil {
		return 0, err
	}
	rec := spec.Record{Name: a.Name(), Version: a.Version(), Build: a.Build()}
	p, err := layering.WriteLayer(ctx, a, rec, artifact.Place{Prefix: spec.Prefix}, layering.Gzip, io.Discard)
	return p.Installed, err
}

func recompress(_ string, raw []byte) (total int64, err error) {
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return 0, err
	}
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, "pkg-") {
			continue
		}
		m, err := f.Open()
		if err != nil {
			return 0, err
		}
		d, err := zstd.NewReader(m, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return 0, err
		}
		w, err := gzip.NewWriterLevel(io.Discard, 6)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(w, d)
		d.Close()
		if err != nil {
			return 0, err
		}
		total += n
		if err := w.Close(); err != nil {
			return 0, err
		}
	}
	return total, nil
}

package layering_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// bigArtifact writes a package with one incompressible binary file of the given size, which
// contains a prefix.
func bigArtifact(t *testing.T, mib int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), condadata.BigPackage)
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	condadata.WriteBigPackage(t, f, mib)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestMemory checks that memory does not depend on the size of a package. It does not run
// in parallel with other tests, whose memory would count.
func TestMemory(t *testing.T) { //nolint:paralleltest // as said
	const mib, most = 128, 48 << 20
	file := bigArtifact(t, mib)
	for _, c := range []layering.Compression{layering.Gzip, layering.Erofs, layering.ErofsZstd} {
		t.Run(string(c), func(t *testing.T) { //nolint:paralleltest // as said
			testMemory(t, file, c, mib, most)
		})
	}
}

func testMemory(t *testing.T, file string, c layering.Compression, mib, most int64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	a, err := artifact.Open(ctx, f, info.Size(), "big-1-0.conda")
	if err != nil {
		t.Fatal(err)
	}
	out := &peak{}
	rec := spec.Record{Name: "big", Version: "1", Build: "0", FileName: "big-1-0.conda"}
	p, err := layering.WriteLayer(ctx, a, rec, artifact.Place{Prefix: spec.Prefix, Scratch: t.TempDir()}, c, out)
	if err != nil || p.Installed != mib<<20 || out.bytes < mib<<20 {
		t.Fatalf("%d bytes installed, %d packed: %v", p.Installed, out.bytes, err)
	}
	if more := int64(out.heap) - int64(before.HeapAlloc); more > most {
		t.Errorf("a file of %d MiB took %d MiB of memory", mib, more>>20)
	}
}

// peak samples the memory while a layer is written.
type peak struct {
	bytes int64
	heap  uint64
}

func (p *peak) Write(b []byte) (int, error) {
	if step := int64(8 << 20); p.bytes/step != (p.bytes+int64(len(b)))/step {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		p.heap = max(p.heap, now.HeapAlloc)
	}
	p.bytes += int64(len(b))
	return len(b), nil
}

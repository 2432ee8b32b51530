package layering_test

import (
	"archive/tar"
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
)

// bigArtifact writes a package with one incompressible binary file of the given size, which
// contains a prefix.
func bigArtifact(t *testing.T, mib int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "big-1-0.conda")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z := zip.NewWriter(f)
	archive := func(member string, write func(w *tar.Writer) error) {
		m, err := z.CreateHeader(&zip.FileHeader{Name: member, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		packer, err := zstd.NewWriter(m, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(packer)
		for _, err := range []error{write(w), w.Close(), packer.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	archive("info-big-1-0.tar.zst", func(w *tar.Writer) error {
		for name, text := range map[string]string{
			"info/index.json": `{"name":"big","version":"1","build":"0"}`,
			"info/paths.json": `{"paths":[{"_path":"lib/big","path_type":"hardlink","file_mode":"binary","prefix_placeholder":"/home/builder/placeholder"}]}`,
		} {
			if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
				return err
			}
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		return nil
	})
	archive("pkg-big-1-0.tar.zst", func(w *tar.Writer) error {
		if err := w.WriteHeader(&tar.Header{Name: "lib/big", Size: int64(mib) << 20, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		block := make([]byte, 1<<20)
		for i := range mib {
			for at := 0; at < len(block); at += sha256.Size {
				var seed [16]byte
				binary.LittleEndian.PutUint64(seed[:], uint64(i))
				binary.LittleEndian.PutUint64(seed[8:], uint64(at))
				sum := sha256.Sum256(seed[:])
				copy(block[at:], sum[:])
			}
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return nil
	})
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestMemory checks that memory does not depend on the size of a package. It does not run
// in parallel with other tests, whose memory would count.
func TestMemory(t *testing.T) { //nolint:paralleltest // as said
	const mib, most = 128, 48 << 20
	f, err := os.Open(bigArtifact(t, mib))
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
	p, err := layering.WriteLayer(ctx, a, rec, artifact.Place{Prefix: spec.Prefix, Scratch: t.TempDir()}, layering.Gzip, out)
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

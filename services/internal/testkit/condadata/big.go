package condadata

import (
	"archive/tar"
	"archive/zip"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// BigPackage is the file name of the package of WriteBigPackage.
const BigPackage = "big-1-0.conda"

// WriteBigPackage writes the package "big", version 1, build 0, with one incompressible binary file
// of a length in MiB, lib/big, which contains a prefix.
func WriteBigPackage(t T, out io.Writer, mib int) {
	t.Helper()
	z := zip.NewWriter(out)
	archive := func(member string, write func(w *tar.Writer) error) {
		m, err := z.CreateHeader(&zip.FileHeader{Name: member, Method: zip.Store})
		if err != nil {
			t.Fatalf("%v", err)
		}
		packer, err := zstd.NewWriter(m, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatalf("%v", err)
		}
		w := tar.NewWriter(packer)
		for _, err := range []error{write(w), w.Close(), packer.Close()} {
			if err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
	archive("info-big-1-0.tar.zst", func(w *tar.Writer) error {
		for _, f := range []struct{ name, text string }{
			{"info/index.json", `{"name":"big","version":"1","build":"0"}`},
			{"info/paths.json", `{"paths":[{"_path":"lib/big","path_type":"hardlink","file_mode":"binary","prefix_placeholder":"/home/builder/placeholder"}]}`},
		} {
			if err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.text)), Typeflag: tar.TypeReg}); err != nil {
				return err
			}
			if _, err := io.WriteString(w, f.text); err != nil {
				return err
			}
		}
		return nil
	})
	archive("pkg-big-1-0.tar.zst", func(w *tar.Writer) error {
		if err := w.WriteHeader(&tar.Header{Name: "lib/big", Size: int64(mib) << 20, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		return writeNoise(w, mib)
	})
	if err := z.Close(); err != nil {
		t.Fatalf("%v", err)
	}
}

// Noise returns a number of MiB of reproducible bytes that cannot be compressed.
func Noise(t T, mib int) string {
	t.Helper()
	var out strings.Builder
	if err := writeNoise(&out, mib); err != nil {
		t.Fatalf("%v", err)
	}
	return out.String()
}

// writeNoise writes reproducible bytes that cannot be compressed.
func writeNoise(w io.Writer, mib int) error {
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
}

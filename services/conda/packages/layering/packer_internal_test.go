package layering

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPackerIsUsedAgain checks that the bytes of a layer do not depend on earlier layers of
// a packer. Otherwise workers would produce different layers.
func TestPackerIsUsedAgain(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	words := make([][]byte, 500)
	for i := range words {
		words[i] = fmt.Appendf(nil, "%x ", random.Uint64()>>random.IntN(64))
	}
	var contents [][]byte
	for _, size := range []int{0, 1, 100, 5_000, 70_000, 140_000, 3_000_000, 20, 200_000, 1_000_000, 66_000} {
		var b bytes.Buffer
		for b.Len() < size {
			b.Write(words[random.IntN(len(words))])
		}
		contents = append(contents, tarOf(t, b.Bytes()[:size]))
	}
	for _, c := range []encoding{
		Gzip.encoding(false, ""), Gzip.At(1).encoding(false, ""), Gzip.At(9).encoding(false, ""), Zstd.encoding(false, ""), Zstd.At(1).encoding(false, ""), Zstd.At(9).encoding(false, ""), Zstd.At(19).encoding(false, ""),
		Gzip.encoding(true, ""), Gzip.At(1).encoding(true, ""), Estargz.encoding(false, ""), ZstdChunked.encoding(false, ""), Erofs.encoding(false, ""), ErofsZstd.At(19).encoding(false, ""),
	} {
		used, err := c.compressor(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, content := range contents {
			var fresh, again bytes.Buffer
			first, err := c.compressor(&fresh)
			if err != nil {
				t.Fatal(err)
			}
			used.Reset(&again)
			for _, w := range []compressor{first, used} {
				for rest := content; len(rest) > 0; {
					n := min(len(rest), 64<<10)
					if _, err := w.Write(rest[:n]); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(fresh.Bytes(), again.Bytes()) {
				t.Errorf("%v: content %d of %d bytes is packed differently", c, i, len(content))
			}
		}
	}
}

// tarOf returns a tar with one file.
func tarOf(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Name: "file", Typeflag: tar.TypeReg, Size: int64(len(content))})
	_, failed := w.Write(content)
	if err := errors.Join(err, failed, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

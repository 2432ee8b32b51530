package layering

import (
	"bytes"
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
		contents = append(contents, b.Bytes()[:size])
	}
	for _, c := range []Compression{Gzip, Gzip.At(1), Gzip.At(9), Zstd, Zstd.At(1), Zstd.At(9), Zstd.At(19)} {
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
				t.Errorf("%s: content %d of %d bytes is packed differently", c, i, len(content))
			}
		}
	}
}

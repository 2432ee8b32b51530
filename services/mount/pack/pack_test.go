package pack_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/pack"
)

// files are files of a package, with sizes around those of blocks and chunks.
func files() map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	out := map[string]string{"bin/tool": "#!/bin/sh\n", "share/empty": ""}
	for _, size := range []int{1, 4095, 4096, 4097, erofs.ChunkSize - 1, erofs.ChunkSize, erofs.ChunkSize + 1, 3*erofs.ChunkSize + 5} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(random.IntN(8))
		}
		out[fmt.Sprintf("lib/%d", size)] = string(content)
	}
	return out
}

func write(t *testing.T) (blob []byte, p pack.Package) {
	t.Helper()
	var out bytes.Buffer
	w := pack.NewWriter(&out)
	all := files()
	for _, name := range []string{"bin/tool", "share/empty", "lib/1", "lib/4095", "lib/4096", "lib/4097", "lib/262143", "lib/262144", "lib/262145", "lib/786437"} {
		if err := w.File(name, 0o4755, 1700000000, int64(len(all[name])), strings.NewReader(all[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Link("bin/also", "bin/tool"); err != nil {
		t.Fatal(err)
	}
	if err := w.Symlink("bin/link", "tool", 1700000001); err != nil {
		t.Fatal(err)
	}
	p, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), p
}

func TestBlobHasAllFiles(t *testing.T) {
	blob, p := write(t)
	again, _ := write(t)
	if !bytes.Equal(blob, again) {
		t.Error("the same files produce other bytes")
	}
	index, err := pack.ReadIndex(bytes.NewReader(blob), int64(len(blob)))
	if err != nil || !bytes.Equal(index, p.Index) {
		t.Fatalf("the index differs: %v", err)
	}
	x, err := erofs.Open(index)
	if err != nil {
		t.Fatal(err)
	}
	content := contents(t, blob, p.Device)
	for name, want := range files() {
		nid := x.Root()
		for part := range strings.SplitSeq(name, "/") {
			var ok bool
			if nid, ok = x.Lookup(nid, part); !ok {
				t.Fatalf("%s is missing", name)
			}
		}
		i, _ := x.Inode(nid)
		if i.Mode != erofs.ModeFile|0o755 || i.Size != uint64(len(want)) || i.Mtime != 1700000000 {
			t.Errorf("%s has the mode %o, the size %d and the time %d", name, i.Mode, i.Size, i.Mtime)
		}
		if i.Size == 0 {
			continue
		}
		device, at, ok := x.Extent(nid)
		if !ok || device != 0 || at%erofs.BlockSize != 0 || string(content[at:at+int64(i.Size)]) != want {
			t.Errorf("%s has other contents", name)
		}
	}
}

// contents decodes all chunks of a blob, and verifies them.
func contents(t *testing.T, blob []byte, d erofs.Device) []byte {
	t.Helper()
	end := blob[len(blob)-pack.TableSize(len(d.Chunks)):]
	table, err := pack.ParseTable(end, len(d.Chunks), int64(len(blob)))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := pack.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for i, sum := range d.Chunks {
		at, length := table.Frame(i, i+1)
		chunk, err := decoder.Chunk(blob[at:at+length], nil)
		if err != nil || sha256.Sum256(chunk) != sum {
			t.Fatalf("chunk %d differs: %v", i, err)
		}
		out = append(out, chunk...)
	}
	if uint64(len(out)) != d.Size {
		t.Errorf("the blob has %d bytes of contents instead of %d", len(out), d.Size)
	}
	return out
}

// TestBlobIsZstd verifies that any decoder of zstd reads a blob.
func TestBlobIsZstd(t *testing.T) {
	blob, p := write(t)
	d, err := zstd.NewReader(bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n, err := io.Copy(io.Discard, d)
	if err != nil || uint64(n) != p.Device.Size+uint64(len(p.Index)) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestShortContent(t *testing.T) {
	w := pack.NewWriter(io.Discard)
	if err := w.File("a", 0o644, 0, 10, strings.NewReader("short")); err == nil {
		t.Error("a file that is shorter than its size is accepted")
	}
}

func FuzzReadIndex(f *testing.F) {
	var out bytes.Buffer
	w := pack.NewWriter(&out)
	_ = w.File("a/b", 0o644, 1, 3, strings.NewReader("abc"))
	if _, err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, blob []byte) {
		index, err := pack.ReadIndex(bytes.NewReader(blob), int64(len(blob)))
		if err != nil {
			return
		}
		if x, err := erofs.Open(index); err == nil {
			_ = x.Check()
		}
	})
}

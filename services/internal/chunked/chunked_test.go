package chunked_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/chunked"
)

// layer is a tar, compressed.
type layer struct {
	tar, packed []byte
	writer      *chunked.Writer
}

// compress writes files with a writer, in pieces of a length.
func compress(t testing.TB, w *chunked.Writer, packed *bytes.Buffer, piece int) layer {
	t.Helper()
	packed.Reset()
	w.Reset(packed)
	var plain bytes.Buffer
	archive := tar.NewWriter(io.MultiWriter(&plain, pieces{w, piece}))
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		err := archive.WriteHeader(&h)
		if err == nil {
			err = w.Header(&h)
		}
		if err == nil && len(content) > 0 {
			_, err = archive.Write(content)
		}
		if err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
	}
	at := time.Unix(1_700_000_000, 0)
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(r.Uint32() >> 24)
		}
		return out
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "opt/", Mode: 0o755, ModTime: time.Unix(0, 0)}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/empty", ModTime: at}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/small", ModTime: at}, []byte("a small file\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/zeros", ModTime: at, Mode: 0o755}, make([]byte, 100_000))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/exact", ModTime: at}, noise(4<<20))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/large", ModTime: at, Mode: 0o755}, noise(9<<20+7))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/" + strings.Repeat("long-name/", 20) + "é", ModTime: at}, []byte(strings.Repeat("text ", 5000)))
	add(tar.Header{Typeflag: tar.TypeSymlink, Name: "opt/link", Linkname: "small", Mode: 0o777, ModTime: at}, nil)
	add(tar.Header{Typeflag: tar.TypeLink, Name: "opt/hard", Linkname: "opt/small", ModTime: at}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "opt/last", ModTime: at}, []byte("x"))
	if err := errors.Join(archive.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return layer{plain.Bytes(), bytes.Clone(packed.Bytes()), w}
}

// pieces writes pieces of a maximum length.
type pieces struct {
	out io.Writer
	n   int
}

func (p pieces) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), p.n)
		if _, err := p.out.Write(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

func formats() map[string]chunked.Format {
	return map[string]chunked.Format{"estargz": chunked.Estargz, "zstd": chunked.Zstd}
}

func newWriter(t testing.TB, f chunked.Format) *chunked.Writer {
	t.Helper()
	level := 6
	if f == chunked.Zstd {
		level = int(zstd.SpeedDefault)
	}
	w, err := chunked.NewWriter(nil, f, level)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestOrdinaryEngines checks that layers are ordinary gzip and zstd, and that their bytes depend neither
// on how the tar is written nor on earlier layers of the writer.
func TestOrdinaryEngines(t *testing.T) {
	t.Parallel()
	for name, f := range formats() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, packed := newWriter(t, f), &bytes.Buffer{}
			first := compress(t, w, packed, 1<<20)
			notes := fmt.Sprint(w.Annotations())
			var in io.Reader
			in, err := gzip.NewReader(bytes.NewReader(first.packed))
			if f == chunked.Zstd {
				in, err = zstd.NewReader(bytes.NewReader(first.packed))
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(in)
			if want := append(bytes.Clone(first.tar), w.Trailer()...); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes instead of %d: %v", len(got), len(want), err)
			}
			again := compress(t, w, packed, 77)
			other := compress(t, newWriter(t, f), &bytes.Buffer{}, 100_000)
			if !bytes.Equal(again.packed, first.packed) || !bytes.Equal(other.packed, first.packed) || fmt.Sprint(w.Annotations()) != notes {
				t.Error("the same tar becomes another layer")
			}
		})
	}
}

// TestHeaders checks what a layer cannot have.
func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, f := range formats() {
		w := newWriter(t, f)
		w.Reset(io.Discard)
		if err := w.Header(&tar.Header{Typeflag: tar.TypeReg, Name: "a\xff"}); !errors.Is(err, chunked.ErrName) {
			t.Errorf("%s: a name: %v", name, err)
		}
		if err := w.Header(&tar.Header{Typeflag: tar.TypeChar, Name: "a"}); err == nil {
			t.Errorf("%s: a device is accepted", name)
		}
		if err := w.Header(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 10}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("short")); err != nil {
			t.Fatal(err)
		}
		if w.Header(&tar.Header{Typeflag: tar.TypeReg, Name: "b"}) == nil || w.Close() == nil {
			t.Errorf("%s: a truncated file is accepted", name)
		}
	}
}

// TestGenuineLibraries checks with the libraries of stargz-snapshotter and of podman that they read the
// files of layers one by one. SLIPWAY_TEST_CLIENTS is a folder that services/tools/clients.sh has filled.
func TestGenuineLibraries(t *testing.T) {
	t.Parallel()
	judge := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin", "chunked-judge")
	if _, err := os.Stat(judge); err != nil {
		t.Skip("NOT TESTED with the libraries of engines: SLIPWAY_TEST_CLIENTS names no folder with bin/chunked-judge; services/tools/clients.sh builds it")
	}
	for name, f := range formats() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getuid() != 0 && f == chunked.Zstd {
				t.Skip("NOT TESTED with podman's library: it needs root")
			}
			l, dir := compress(t, newWriter(t, f), &bytes.Buffer{}, 1<<16), t.TempDir()
			notes, err := json.Marshal(l.writer.Annotations())
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string][]byte{"layer": l.packed, "notes": notes, "tar": l.tar} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{name, filepath.Join(dir, "layer"), filepath.Join(dir, "notes"), filepath.Join(dir, "tar")}
			if f == chunked.Zstd {
				args = append(args, filepath.Join(dir, "store"))
			}
			out, err := exec.CommandContext(t.Context(), judge, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s: %s", digest.FromBytes(l.packed), out)
		})
	}
}

package parts

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/layertar"
)

// A partWorld is a store of parts.
type partWorld struct {
	*Store
}

func newPartWorld(t *testing.T, limit int64) partWorld {
	t.Helper()
	c, err := squashfs.NewCompressor(squashfs.Compression{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.TempDir(), limit, c)
	if err != nil {
		t.Fatal(err)
	}
	return partWorld{s}
}

func (w partWorld) get(ctx context.Context, host, layer string, write func(io.Writer) error) (sif.OpenPart, error) {
	return w.Open(ctx, host, digest.FromString(layer), write)
}

// writing returns a function that writes a part of a file with this text, and counts its calls.
func (w partWorld) writing(t *testing.T, text string, count *atomic.Int32) func(io.Writer) error {
	return func(out io.Writer) error {
		count.Add(1)
		_, err := squashfs.WritePart(t.Context(), out, w.compressor, nil, func(p *squashfs.PartWriter) error {
			return p.Add(&tar.Header{Typeflag: tar.TypeReg, Name: text, Size: int64(len(text))}, strings.NewReader(text))
		})
		return err
	}
}

// content returns the text of a part, which is the name of its only file.
func content(t *testing.T, p sif.OpenPart, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	listing, _ := p.Listing()
	z, err := zstd.NewReader(listing)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	h, err := tar.NewReader(z).Next()
	if err != nil {
		t.Fatal(err)
	}
	return h.Name
}

// TestPartsOnce opens a part concurrently, and checks that it is written once; a part of another registry
// or compression is another one.
func TestPartsOnce(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	var n atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			p, err := w.get(t.Context(), "one.example", "layer", w.writing(t, "text", &n))
			if got := content(t, p, err); got != "text" {
				t.Errorf("it reads %q", got)
			}
		})
	}
	all.Wait()
	if n.Load() != 1 {
		t.Errorf("it was written %d times", n.Load())
	}
	for _, host := range []string{"two.example", "one.example"} {
		p, err := w.get(t.Context(), host, "layer", w.writing(t, "other", &n))
		if got := content(t, p, err); (got == "other") != (host == "two.example") {
			t.Errorf("%s has %q", host, got)
		}
	}
	var err error
	if w.compressor, err = squashfs.NewCompressor(squashfs.Compression{Name: "zstd", Level: 9}, 1); err != nil {
		t.Fatal(err)
	}
	p, err := w.get(t.Context(), "one.example", "layer", w.writing(t, "smaller", &n))
	if got := content(t, p, err); got != "smaller" {
		t.Errorf("another level has %q", got)
	}
	if left, err := os.ReadDir(w.temporary()); err != nil || len(left) != 0 {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

// TestPartsOfFailures checks that the error of one job is not that of another, which writes the part.
func TestPartsOfFailures(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	broken, begun, end := errors.New("broken"), make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := w.get(t.Context(), "h", "layer", func(io.Writer) error { close(begun); <-end; return broken })
		if !errors.Is(err, broken) {
			t.Errorf("the first job: %v", err)
		}
	})
	<-begun
	var n atomic.Int32
	all.Go(func() {
		p, err := w.get(t.Context(), "h", "layer", w.writing(t, "text", &n))
		if got := content(t, p, err); got != "text" {
			t.Errorf("the second job reads %q", got)
		}
	})
	close(end)
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.get(ctx, "h", "third", func(io.Writer) error { cancel(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled job: %v", err)
	}
	if _, err := w.get(ctx, "h", "third", w.writing(t, "text", &n)); !errors.Is(err, context.Canceled) {
		t.Errorf("a job that is cancelled when the part is complete: %v", err)
	}
	_, err = w.get(t.Context(), "h", "fourth", func(io.Writer) error { return &os.PathError{Err: syscall.ENOSPC} })
	if f := (*jobs.Failure)(nil); !errors.As(err, &f) || !strings.Contains(err.Error(), "sif_layers") {
		t.Errorf("a full disk: %v", err)
	}
	if left, err := os.ReadDir(w.temporary()); err != nil || len(left) != 0 {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

// TestPartsAreEvicted checks that the least recently used parts are removed, and that an open part can
// still be read.
func TestPartsAreEvicted(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	var n atomic.Int32
	open := func(layer string) sif.OpenPart {
		p, err := w.get(t.Context(), "h", layer, w.writing(t, "0123456789", &n))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second, third := open("a"), open("b"), open("c")
	_ = open("a").Close() // now b is the oldest
	w.limit = 5 * int64(len(readFile(t, w.path("h", digest.FromString("a"))))) / 2
	if err := w.Prune(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, second, nil); got != "0123456789" {
		t.Errorf("the open part reads %q", got)
	}
	_, _ = first.Close(), third.Close()
	if n.Load() != 3 {
		t.Fatalf("%d parts were written", n.Load())
	}
	for _, layer := range []string{"a", "c"} {
		if _ = open(layer).Close(); n.Load() != 3 {
			t.Errorf("%s was evicted", layer)
		}
	}
	if _ = open("b").Close(); n.Load() != 4 {
		t.Error("b was not evicted")
	}
}

// TestPartsOfAKilledProcess checks that the temporary files of an earlier process are removed, and its
// parts are used.
func TestPartsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	var n atomic.Int32
	p, err := w.get(t.Context(), "h", "layer", w.writing(t, "text", &n))
	_ = content(t, p, err)
	if err := os.WriteFile(filepath.Join(w.temporary(), "half"), []byte("te"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.Store, err = New(w.dir, 0, w.compressor); err != nil {
		t.Fatal(err)
	}
	p, err = w.get(t.Context(), "h", "layer", w.writing(t, "again", &n))
	if got := content(t, p, err); got != "text" || n.Load() != 1 {
		t.Errorf("it reads %q after %d times", got, n.Load())
	}
	if left, err := os.ReadDir(w.temporary()); err != nil || len(left) != 0 {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

// TestCopy makes the part of a layer from a copy of its tar, and compares it with the one that is made
// from the layer.
func TestCopy(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	var raw bytes.Buffer
	out := tar.NewWriter(&raw)
	for i := range 300 {
		text := strings.Repeat(fmt.Sprint(i), 1000*(i%7))
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d/%d", i), Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	c := w.Copy(t.Context(), "h")
	for b := raw.Bytes(); len(b) > 0; {
		n, err := c.Write(b[:min(len(b), 1234)])
		if b = b[n:]; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(digest.FromString("layer")); err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	p, err := w.get(t.Context(), "h", "layer", w.writing(t, "", &n))
	copied := content(t, p, err)
	p, err = w.get(t.Context(), "h", "other", func(to io.Writer) error {
		n.Add(1)
		l := flatten.Layer{Name: "l", Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil }}
		return sif.WritePart(t.Context(), to, w.compressor, l, layertar.Limits{}, nil)
	})
	if made := content(t, p, err); made != copied || n.Load() != 1 {
		t.Errorf("the copy has %s, the part %s; %d were written", copied, made, n.Load())
	}
	one, two := readFile(t, w.path("h", digest.FromString("layer"))), readFile(t, w.path("h", digest.FromString("other")))
	if !bytes.Equal(one, two) {
		t.Errorf("the copy has %d bytes, the part %d", len(one), len(two))
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestBrokenParts changes stored parts, and checks that they are made again.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	var n atomic.Int32
	p, err := w.get(t.Context(), "h", "layer", w.writing(t, "text", &n))
	_ = content(t, p, err)
	path := w.path("h", digest.FromString("layer"))
	whole := readFile(t, path)
	for i := range whole {
		changed := slices.Clone(whole)
		changed[i] ^= 0x10
		for _, raw := range [][]byte{changed, whole[:i]} {
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			before := n.Load()
			p, err := w.get(t.Context(), "h", "layer", w.writing(t, "text", &n))
			if got := content(t, p, err); got != "text" || n.Load() != before+1 {
				t.Fatalf("with a change at %d it reads %q, written %d times", i, got, n.Load()-before)
			}
		}
	}
}

// TestCopyFails checks that the writer of a layer never sees an error of its copy, and that neither the
// copy of a layer that failed nor a malformed one is stored.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t, 0)
	var n atomic.Int32
	for name, try := range map[string]func(c *Copy) error{
		"a layer that failed": func(c *Copy) error { return c.Close("") },
		"a malformed tar":     func(c *Copy) error { return c.Close(digest.FromString("layer")) },
	} {
		c := w.Copy(t.Context(), "h")
		for range 100 {
			if n, err := c.Write(bytes.Repeat([]byte("x"), 5000)); n != 5000 || err != nil {
				t.Fatalf("%s: wrote %d bytes, %v", name, n, err)
			}
		}
		if err := try(c); err == nil {
			t.Errorf("%s has a part", name)
		}
	}
	if err := os.RemoveAll(w.temporary()); err != nil {
		t.Fatal(err)
	}
	c := w.Copy(t.Context(), "h")
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := c.Close(digest.FromString("layer")); err == nil {
		t.Error("a folder that is lost has a part")
	}
	if err := os.MkdirAll(w.temporary(), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := w.get(t.Context(), "h", "layer", w.writing(t, "new", &n))
	if got := content(t, p, err); got != "new" {
		t.Errorf("it reads %q", got)
	}
}

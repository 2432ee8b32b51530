package layering_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/fault"
)

func folder(t *testing.T, dir string) *layering.Folder {
	t.Helper()
	f, err := layering.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func writing(text string, times *atomic.Int32) func(io.Writer) (layering.Package, error) {
	return func(out io.Writer) (layering.Package, error) {
		times.Add(1)
		_, err := io.WriteString(out, text)
		return layering.Package{Layer: layering.Layer{Digest: digest.FromString(text), Size: int64(len(text))}, Paths: []string{"a"}}, err
	}
}

// TestFolder checks that a layer is built once, also by concurrent calls and after a
// restart, and again if its blob is missing or truncated.
func TestFolder(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	f := folder(t, dir)
	var times atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if p, err := f.Keep(ctx, "k", writing("layer", &times)); err != nil || p.Size != 5 {
				t.Errorf("keeping: %+v, %v", p, err)
			}
		})
	}
	all.Wait()
	if n := times.Load(); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	f = folder(t, dir)
	p, err := f.Package(ctx, "k")
	if err != nil || len(p.Paths) != 1 {
		t.Fatalf("after a restart: %+v, %v", p, err)
	}
	again, err := f.Package(ctx, "k")
	if err != nil || &again.Paths[0] != &p.Paths[0] {
		t.Errorf("the document is decoded twice: %v", err)
	}
	in, err := f.Open(ctx, p.Layer)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(in); err != nil || string(raw) != "layer" {
		t.Errorf("the blob is %q, %v", raw, err)
	}
	_ = in.Close()
	blob := filepath.Join(dir, "blobs", p.Digest.Encoded())
	for name, harm := range map[string]func() error{"cut": func() error { return os.Truncate(blob, 2) }, "removed": func() error { return os.Remove(blob) }} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Package(ctx, "k"); !errors.Is(err, fault.NotFound) {
			t.Errorf("a layer whose blob is %s is known: %v", name, err)
		}
		if _, err := f.Keep(ctx, "k", writing("layer", &times)); err != nil {
			t.Error(err)
		}
	}
	if n := times.Load(); n != 3 {
		t.Errorf("it was made %d times", n)
	}
	if _, err := f.Package(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "packages", "k"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Package(ctx, "k"); !errors.Is(err, fault.NotFound) {
		t.Errorf("a damaged document is used: %v", err)
	}
}

// TestFolderOfCancelled checks that a cancelled call does not cancel those that wait for
// it.
func TestFolderOfCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := folder(t, t.TempDir())
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := f.Keep(ctx, "k", func(io.Writer) (layering.Package, error) {
				<-ctx.Done()
				return layering.Package{}, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the one who was cancelled got %v", err)
			}
		})
		synctest.Wait()
		var times atomic.Int32
		all.Go(func() {
			if p, err := f.Keep(context.Background(), "k", writing("layer", &times)); err != nil || p.Size != 5 {
				t.Errorf("the other got %+v, %v", p, err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
		if n := times.Load(); n != 1 {
			t.Errorf("it was made %d times", n)
		}
	})
}

// TestFolderDiscardsPartialBlobs checks that a failed write leaves no files.
func TestFolderDiscardsPartialBlobs(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	f := folder(t, dir)
	broken := errors.New("the disk is full")
	_, err := f.Keep(ctx, "k", func(out io.Writer) (layering.Package, error) {
		_, _ = io.WriteString(out, "half")
		return layering.Package{}, broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := f.Package(ctx, "k"); !errors.Is(err, fault.NotFound) {
		t.Errorf("it is known: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "packages", "k"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Package(ctx, "k"); !errors.Is(err, fault.NotFound) {
		t.Errorf("a broken document is believed: %v", err)
	}
}

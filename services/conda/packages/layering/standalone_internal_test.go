package layering

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

// oddEntries are entries of a package that a tar changes, or that are written once.
func oddEntries() []artifact.Entry {
	at := time.Unix(1_700_000_000, 600_000_000) // a tar has whole seconds
	return []artifact.Entry{
		{Path: "lib", Type: tar.TypeDir},
		{Path: "lib/a", Type: tar.TypeReg, Mode: 0o4755, ModTime: at, Size: 3},
		{Path: "lib/b", Type: tar.TypeLink, Target: "lib/a"},
		{Path: "bin/" + strings.Repeat("long", 60), Type: tar.TypeReg, Mode: 0o600, ModTime: at, Size: 3},
		{Path: "bin/c", Type: tar.TypeSymlink, Target: "../lib/a", ModTime: at},
		{Path: "empty", Type: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(0, 0)},
		{Path: "share/d", Type: tar.TypeDir},
	}
}

// TestBlobWithoutLayer checks that the blob of a package is the same, whether it is made with or without a layer.
func TestBlobWithoutLayer(t *testing.T) {
	t.Parallel()
	store, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(c Compression) func(io.Writer) (Package, error) {
		return func(out io.Writer) (Package, error) {
			b, err := newTarball(out, spec.Prefix, c.encoding(false, ""))
			if err != nil {
				return Package{}, err
			}
			for _, e := range oddEntries() {
				if err := b.Put(e, strings.NewReader("abc"[:e.Size])); err != nil {
					return Package{}, err
				}
			}
			return b.close()
		}
	}
	keep := func(key string, write func(io.Writer) (Package, error)) Package {
		t.Helper()
		p, err := store.Keep(t.Context(), spec.HashLayer(key), write)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	layer := keep("layer", put(Gzip))
	from := keep("from", func(out io.Writer) (Package, error) { return writeBlob(t.Context(), store, layer, out) })
	direct := keep("direct", put(Mounted))
	if from.Digest != direct.Digest || from.DiffID != direct.DiffID || from.Size != direct.Size || len(from.Paths) != len(direct.Paths) {
		t.Errorf("the blobs differ:\n%+v\n%+v", from, direct)
	}
}

// TestBlobRejectsOtherSizes checks that a file must have the size that its package states.
func TestBlobRejectsOtherSizes(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"ab", "abcd"} {
		b, err := newTarball(io.Discard, spec.Prefix, Mounted.encoding(false, ""))
		if err == nil {
			err = b.Put(artifact.Entry{Path: "f", Type: tar.TypeReg, Size: 3}, strings.NewReader(content))
		}
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("a file of %d bytes instead of 3: %v", len(content), err)
		}
	}
}

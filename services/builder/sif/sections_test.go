package sif_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/oci"
)

// randomLayer returns a layer of files whose content depends on their seeds, by name.
func randomLayer(t *testing.T, files map[string]byte) sif.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, seed := range files {
		content := make([]byte, 300_000+int(seed))
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(content)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sif.Layer{Layer: flatten.Layer{Name: "test", Size: int64(b.Len()), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}}}
}

// stored returns a layer whose part is stored.
func stored(l sif.Layer) sif.Layer {
	l.Keep = func(_ context.Context, write func(io.Writer) error) (sif.OpenPart, error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return sif.OpenPart{}, err
		}
		p, err := squashfs.OpenPart(bytes.NewReader(b.Bytes()), int64(b.Len()))
		return sif.OpenPart{Part: p}, err
	}
	return l
}

// TestSections joins the sections of an image and compares them with the image. It has layers with common
// and replaced files, with the same blocks, and one whose part is not stored.
func TestSections(t *testing.T) {
	t.Parallel()
	layers := []sif.Layer{
		stored(randomLayer(t, map[string]byte{"a": 1, "b": 2, "c": 3})),
		stored(randomLayer(t, map[string]byte{"b": 4, "d": 1})),
		randomLayer(t, map[string]byte{"e": 5}),
		stored(randomLayer(t, map[string]byte{"f": 6})),
		stored(randomLayer(t, map[string]byte{"g": 6})),
	}
	f, err := sif.Make(t.Context(), t.TempDir(), sif.Image{Config: []byte(config), Layers: layers, Compressor: compressor(squashfs.Compression{})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want, err := io.ReadAll(f.Reader())
	if err != nil {
		t.Fatal(err)
	}
	sections, own := f.Sections()
	c, got := oci.Composition{MediaType: oci.TypeComposition}, []byte(nil)
	parts := map[*squashfs.Part]bool{}
	for _, s := range sections {
		from, d := io.NewSectionReader(own, 0, own.Size()), digest.FromString("own")
		if s.Part != nil {
			blocks, sum := s.Part.Blocks()
			all, err := io.ReadAll(blocks)
			if err != nil || sha256.Sum256(all) != sum {
				t.Fatalf("the blocks have another digest, %v", err)
			}
			from, d = blocks, digest.NewDigestFromBytes(digest.SHA256, sum[:])
			parts[s.Part] = true
		}
		p := make([]byte, s.Length)
		if _, err := from.ReadAt(p, s.Offset); err != nil {
			t.Fatal(err)
		}
		got = append(got, p...)
		c.Pieces = append(c.Pieces, oci.Piece{Digest: d, Offset: s.Offset, Length: s.Length})
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the sections have %d bytes, want %d", len(got), len(want))
	}
	if len(parts) != 3 || own.Size() < 300_000 || own.Size() > 400_000 {
		t.Errorf("%d parts are shared; %d bytes belong to the image only", len(parts), own.Size())
	}
	raw, err := json.Marshal(c)
	if err == nil {
		_, err = oci.ParseComposition(raw)
	}
	if err != nil {
		t.Error(err)
	}
}

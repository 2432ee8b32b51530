package sif_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/sif"
)

// zipped is a layer of some megabytes, in members of a gzip stream as estargz has
// them.
func zipped(t testing.TB) []byte {
	t.Helper()
	var plain, packed bytes.Buffer
	random := rand.NewChaCha8([32]byte{1})
	w := tar.NewWriter(&plain)
	for name, size := range map[string]int64{"a": 3 << 20, "b": 5 << 20} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, random, size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for plain.Len() > 0 {
		z := gzip.NewWriter(&packed)
		if _, err := io.CopyN(z, &plain, 1<<20); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return packed.Bytes()
}

// ending is a source that ends with an error of its own.
type ending struct {
	io.Reader
	err error
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = e.err
	}
	return n, err
}

// TestGunzip has a layer decompressed by igzip, and by ourselves: the same image, and
// the same faults.
func TestGunzip(t *testing.T) {
	t.Parallel()
	with := tool(t, "")
	if !with.HasGunzip() {
		t.Fatal("there is no igzip (apt-get install isal)")
	}
	whole := zipped(t)
	broken := bytes.Clone(whole)
	broken[len(broken)-6] ^= 1 // of the last member's checksum
	errSource := errors.New("the registry hung up")
	made := func(ctx context.Context, tool sif.Tool, raw []byte, end error) (sif.File, error) {
		return tool.Make(ctx, t.TempDir(), sif.Image{Config: []byte(config), Layers: []flatten.Layer{{
			Name: "test", Size: int64(len(raw)), Open: func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(ending{bytes.NewReader(raw), end}), nil
			},
		}}})
	}
	for name, tool := range map[string]sif.Tool{"igzip": with, "ourselves": with.Alone()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := made(t.Context(), tool, whole, io.EOF)
			if err != nil || f.Summary.Bytes < 8<<20 {
				t.Fatalf("%d bytes, %v", f.Summary.Bytes, err)
			}
			for what, raw := range map[string][]byte{"cut": whole[:len(whole)-1000], "with another checksum": broken} {
				var r *flatten.Refusal
				if _, err := made(t.Context(), tool, raw, io.EOF); !errors.As(err, &r) || r.Layer != "test" || !strings.Contains(r.Why, "is damaged") {
					t.Errorf("%s: %v", what, err)
				}
			}
			for what, raw := range map[string][]byte{"in the middle": whole[:len(whole)/2], "at the end": whole} {
				if _, err := made(t.Context(), tool, raw, errSource); !errors.Is(err, errSource) {
					t.Errorf("a source that fails %s: %v", what, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			stuck, stop := io.Pipe()
			defer stop.Close()
			began := time.Now()
			_, err = tool.Make(ctx, t.TempDir(), sif.Image{Config: []byte(config), Layers: []flatten.Layer{{
				Name: "stuck", Size: 1 << 30, Open: func(ctx context.Context) (io.ReadCloser, error) {
					context.AfterFunc(ctx, func() { _ = stop.CloseWithError(ctx.Err()) })
					go func() { _, _ = stop.Write(whole[:1<<20]) }()
					return stuck, nil
				},
			}}})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
				t.Errorf("a source that hangs: %v after %s", err, time.Since(began))
			}
		})
	}
	a, err1 := made(t.Context(), with, whole, io.EOF)
	b, err2 := made(t.Context(), with.Alone(), whole, io.EOF)
	if a.Digest != b.Digest || err1 != nil || err2 != nil {
		t.Errorf("%s and %s, %v, %v", a.Digest, b.Digest, err1, err2)
	}
}

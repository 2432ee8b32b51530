package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

func zeros(t *testing.T, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func oneTurn() fairshare.Turns {
	return fairshare.Turns{Pool: fairshare.New(fairshare.Config{Name: "turns", Capacity: 1, MaxWaiting: 10})}
}

// TestBombs checks that decompression bombs are rejected, and that all layers of a request
// share one budget.
func TestBombs(t *testing.T) {
	t.Parallel()
	u := &Unpacking{turns: oneTurn(), left: 96 << 20}
	small := zeros(t, 40<<20)
	for i := range 2 {
		if _, err := u.tarDigest(t.Context(), small); err != nil {
			t.Errorf("layer %d: %v", i, err)
		}
	}
	if _, err := u.tarDigest(t.Context(), small); !errors.Is(err, errUnpacked) {
		t.Errorf("a layer beyond the budget: %v", err)
	}
	alone := &Unpacking{turns: oneTurn(), left: limits.LayersExpanded}
	if _, err := alone.tarDigest(t.Context(), zeros(t, limits.LayerFloor+200*limits.LayerRatio<<10)); !errors.Is(err, errUnpacked) {
		t.Errorf("a layer with a compression ratio of 1000: %v", err)
	}
}

// TestClientThatLeft checks that cancellation ends running and waiting decompression.
func TestClientThatLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := &Unpacking{turns: oneTurn(), left: limits.LayersExpanded}
	if _, err := u.tarDigest(ctx, zeros(t, 1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if u.left != limits.LayersExpanded {
		t.Errorf("%d bytes were uncompressed after cancellation", limits.LayersExpanded-u.left)
	}
	if _, err := u.turns.TryAcquire(fairshare.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := u.tarDigest(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("while other requests uncompress: got %v", err)
	}
}

func FuzzDataLayer(f *testing.F) {
	f.Add("AAAA", int64(3))
	f.Fuzz(func(t *testing.T, content string, size int64) {
		u := &Unpacking{turns: oneTurn(), left: 1 << 20}
		_, _ = u.DecodeData(t.Context(), "layer", &containerv1.Layer{Location: request.DataPrefix + content, GzipSize: &size})
	})
}

// TestNames checks that an archive with a name that is not UTF-8 is rejected.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"café": true, "caf\xe9": false} {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		w := tar.NewWriter(z)
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}), w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		u := &Unpacking{turns: oneTurn(), left: limits.LayersExpanded}
		if err := u.CheckNames(t.Context(), "buildContext", out.Bytes()); (err == nil) != want || err != nil && !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

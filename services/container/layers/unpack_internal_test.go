package layers

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
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

// TestBombs are refused by their own size, and all layers of a request share one
// budget.
func TestBombs(t *testing.T) {
	t.Parallel()
	u := &Unpacking{turns: make(chan struct{}, 1), left: 96 << 20}
	small := zeros(t, 40<<20)
	for i := range 2 {
		if _, err := u.tarDigest(t.Context(), small); err != nil {
			t.Errorf("layer %d: %v", i, err)
		}
	}
	if _, err := u.tarDigest(t.Context(), small); !errors.Is(err, errUnpacked) {
		t.Errorf("a layer beyond the budget: %v", err)
	}
	alone := &Unpacking{turns: make(chan struct{}, 1), left: limits.LayersExpanded}
	if _, err := alone.tarDigest(t.Context(), zeros(t, limits.LayerFloor+200*limits.LayerRatio<<10)); !errors.Is(err, errUnpacked) {
		t.Errorf("a layer of a thousand times its length: %v", err)
	}
}

// TestClientThatLeft has nothing uncompressed any more, neither under way nor waiting.
func TestClientThatLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := &Unpacking{turns: make(chan struct{}, 1), left: limits.LayersExpanded}
	if _, err := u.tarDigest(ctx, zeros(t, 1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if u.left != limits.LayersExpanded {
		t.Errorf("%d bytes were uncompressed for nobody", limits.LayersExpanded-u.left)
	}
	u.turns <- struct{}{}
	if _, err := u.tarDigest(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("while others are at it: got %v", err)
	}
}

func FuzzDataLayer(f *testing.F) {
	f.Add("AAAA", int64(3))
	f.Fuzz(func(t *testing.T, content string, size int64) {
		u := &Unpacking{turns: make(chan struct{}, 1), left: 1 << 20}
		_, _ = u.DecodeData(t.Context(), "layer", &containerv1.Layer{Location: request.DataPrefix + content, GzipSize: &size})
	})
}

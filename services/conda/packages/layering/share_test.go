package layering_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/testkit"
)

// Get opens a blob.
func (r repository) Get(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	return r.client.BlobGet(ctx, r.name, described(d))
}

// GetPart opens a part of a blob.
func (r repository) GetPart(ctx context.Context, d ocispec.Descriptor, from, length int64) (io.ReadCloser, error) {
	whole, err := r.Get(ctx, d)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, whole, from); err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(whole, length), whole}, nil
}

// TestGather checks that small layers of another worker that are to be merged are copied
// from the target, and that missing ones are built here.
func TestGather(t *testing.T) {
	t.Parallel()
	ctx, target := t.Context(), at(t, testkit.NewRegistry(t, testkit.Open), "team/env:1")
	var asked atomic.Int32
	lock := environment(t, &asked)[:2]
	other := newBuilder(t, t.TempDir())
	packages, err := other.Packages(ctx, lock)
	if err != nil {
		t.Fatal(err)
	}
	there := packages[0]
	blob, err := other.Store.Open(ctx, there.Layer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blob.Close() }()
	if err := target.Put(ctx, ocispec.Descriptor{MediaType: there.MediaType, Digest: there.Digest, Size: there.Size}, blob); err != nil {
		t.Fatal(err)
	}
	m := newBuilder(t, t.TempDir())
	m.Share = &layering.Share{Target: target, Repository: "team/env"}
	before := asked.Load()
	if err := m.Gather(ctx, lock, packages, []int{0, 1}); err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		in, err := m.Store.Open(ctx, p.Layer)
		if err != nil {
			t.Fatalf("%s is not in the store: %v", p.By, err)
		}
		if n, err := io.Copy(io.Discard, in); n != p.Size || err != nil {
			t.Errorf("%s has %d bytes, %v", p.By, n, err)
		}
		_ = in.Close()
	}
	if n := asked.Load() - before; n != 1 {
		t.Errorf("the channel was asked %d times for what one registry lacks", n)
	}
}

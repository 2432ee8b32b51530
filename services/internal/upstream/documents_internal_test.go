package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// of returns the context of a call from an address.
func of(ctx context.Context, i int) context.Context {
	return rpc.WithCall(ctx, rpc.Call{ClientIP: netip.AddrFrom4([4]byte{10, 0, byte(i), 1})})
}

// isFree fails the test unless the budget is unused.
func (d *Documents) isFree(t *testing.T) {
	t.Helper()
	lease, err := d.TryAcquire(fairshare.Request{Client: fairshare.Service(), Amount: limits.DocumentsAtOnce})
	if err != nil {
		t.Fatal("the budget is still in use")
	}
	lease.Release()
}

// TestConcurrentDocuments exhausts the budget. Further calls wait until memory is released, and
// fail if that takes too long.
func TestConcurrentDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDocuments()
		large := bytes.Repeat([]byte("x"), limits.Document)
		read := func(ctx context.Context) (func(), error) {
			raw, release, err := d.Read(ctx, bytes.NewReader(large), -1)
			if err == nil && !bytes.Equal(raw, large) {
				t.Errorf("read %d bytes", len(raw))
			}
			return release, err
		}
		ctx, done := d.Hold(t.Context())
		for i := range limits.DocumentsAtOnce / limits.Document {
			release, err := read(of(ctx, i))
			if err != nil {
				t.Fatal(err)
			}
			release() // the operation continues, so that its memory is still counted
		}
		if _, release, err := d.Read(t.Context(), bytes.NewReader(large[:limits.SmallDocument-1]), -1); err != nil {
			t.Errorf("a small document waits: %v", err)
		} else {
			release()
		}
		start := time.Now()
		if _, err := read(t.Context()); !errors.Is(err, fault.Unavailable) || time.Since(start) != limits.DocumentsWait {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := read(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller got %v", err)
		}
		time.AfterFunc(time.Second, done)
		release, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
		// An operation that has ended retains no memory.
		if release, err = read(ctx); err != nil {
			t.Fatal(err)
		}
		release()
		d.isFree(t)
	})
}

// TestDocumentsOfOneNetwork verifies that one network cannot use the whole budget.
func TestDocumentsOfOneNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDocuments()
		large := bytes.Repeat([]byte("x"), limits.Document)
		ctx, done := d.Hold(of(t.Context(), 1))
		defer done()
		for range limits.DocumentsAtOnce / limits.Document {
			_, _, err := d.Read(ctx, bytes.NewReader(large), -1)
			if err != nil {
				break
			}
		}
		start := time.Now()
		_, release, err := d.Read(of(t.Context(), 2), bytes.NewReader(large), -1)
		if err != nil || time.Since(start) > 0 {
			t.Fatalf("another network: %v after %s", err, time.Since(start))
		}
		release()
	})
}

func TestDocumentSizes(t *testing.T) {
	t.Parallel()
	d := NewDocuments()
	for _, tc := range []struct {
		name       string
		size, said int64
		want       error
	}{
		{"nothing", 0, 0, nil},
		{"small", 10, -1, nil},
		{"the largest small one", limits.SmallDocument, limits.SmallDocument, nil},
		{"just too large for a small one", limits.SmallDocument + 1, -1, nil},
		{"more than Content-Length", limits.SmallDocument + 10, 5, nil},
		{"the largest", limits.Document, limits.Document, nil},
		{"too large", limits.Document + 1, -1, errTooLarge},
		{"too large a Content-Length", 1, limits.Document + 1, errTooLarge},
	} {
		raw, release, err := d.Read(t.Context(), io.LimitReader(zeros{}, tc.size), tc.said)
		if !errors.Is(err, tc.want) || err == nil && int64(len(raw)) != tc.size {
			t.Errorf("%s: got %d bytes, %v", tc.name, len(raw), err)
		}
		if err == nil {
			release()
		}
	}
	d.isFree(t)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

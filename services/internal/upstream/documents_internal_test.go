package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// TestDocumentsAtOnce fills the room: who comes then waits, is served when there is
// room again, and is told to come back when there is none for long.
func TestDocumentsAtOnce(t *testing.T) {
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
		for range limits.DocumentsAtOnce / limits.Document {
			release, err := read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			release() // the work goes on, so it counts all the same
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
			t.Errorf("who is gone gets %v", err)
		}
		time.AfterFunc(time.Second, done)
		release, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
		// Work that has ended keeps nothing.
		if release, err = read(ctx); err != nil {
			t.Fatal(err)
		}
		release()
		if !d.room.TryAcquire(limits.DocumentsAtOnce) {
			t.Error("something is still taken")
		}
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
		{"just small", limits.SmallDocument, limits.SmallDocument, nil},
		{"not small", limits.SmallDocument + 1, -1, nil},
		{"more than said", limits.SmallDocument + 10, 5, nil},
		{"the largest", limits.Document, limits.Document, nil},
		{"too large", limits.Document + 1, -1, errTooLarge},
		{"said to be too large", 1, limits.Document + 1, errTooLarge},
	} {
		raw, release, err := d.Read(t.Context(), io.LimitReader(zeros{}, tc.size), tc.said)
		if !errors.Is(err, tc.want) || err == nil && int64(len(raw)) != tc.size {
			t.Errorf("%s: got %d bytes, %v", tc.name, len(raw), err)
		}
		if err == nil {
			release()
		}
	}
	if !d.room.TryAcquire(limits.DocumentsAtOnce) {
		t.Error("something is still taken")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Documents bounds the memory of large documents that are read at once in this
// process. Small ones, which is nearly all of them, are not counted. Safe for
// concurrent use.
type Documents struct {
	room *semaphore.Weighted
	wait time.Duration
}

// NewDocuments makes one.
func NewDocuments() *Documents {
	return &Documents{room: semaphore.NewWeighted(limits.DocumentsAtOnce), wait: limits.DocumentsWait}
}

// hold is what one piece of work has taken.
type hold struct {
	mu    sync.Mutex
	of    *Documents
	taken int64
	ended bool
}

type holdKey struct{}

// Hold begins a piece of work that goes on with the documents it reads: until it
// calls done, the memory of those that are read with ctx counts as taken.
func (d *Documents) Hold(ctx context.Context) (_ context.Context, done func()) {
	h := &hold{of: d}
	return context.WithValue(ctx, holdKey{}, h), h.end
}

func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of.room.Release(h.taken)
	h.taken, h.ended = 0, true
}

// keep makes n bytes count for as long as the work lasts; false when there is no
// work that lasts.
func (h *hold) keep(n int64) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.taken += n
	}
	return !h.ended
}

// take waits for room for n bytes. fault.Unavailable when there is none for too
// long.
func (d *Documents) take(ctx context.Context, n int64) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, d.wait)
	defer cancel()
	if err := d.room.Acquire(waiting, n); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Unavailable.New("Too many large image manifests are being read at the moment; try again", err).After(5 * time.Second)
	}
	if h, _ := ctx.Value(holdKey{}).(*hold); h.keep(n) {
		return func() {}, nil
	}
	return func() { d.room.Release(n) }, nil
}

// errTooLarge is an answer beyond limits.Document.
var errTooLarge = errors.New("its answer is larger than " + fmt.Sprint(limits.Document>>20) + " MiB")

// Read reads a document of at most limits.Document bytes; said is the length that
// was announced, negative for none, and is not believed. The caller calls release
// when it has done with the bytes, unless there is an error.
func (d *Documents) Read(ctx context.Context, in io.Reader, said int64) (raw []byte, release func(), err error) {
	if said > limits.Document {
		return nil, nil, errTooLarge
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, in, limits.SmallDocument); err == io.EOF { //nolint:errorlint // what ends too early may wrap an io.EOF
		return b.Bytes(), func() {}, nil
	} else if err != nil {
		return nil, nil, err
	}
	if said < 0 {
		said = limits.Document
	}
	if release, err = d.take(ctx, said); err != nil {
		return nil, nil, err
	}
	b.Grow(int(max(said-limits.SmallDocument, 0)) + bytes.MinRead)
	if _, err = b.ReadFrom(io.LimitReader(in, limits.Document+1-limits.SmallDocument)); err == nil && b.Len() > limits.Document {
		err = errTooLarge
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return b.Bytes(), release, nil
}

package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// Documents is the memory budget for large documents, which is shared fairly among clients.
// Small documents, which are nearly all, are not counted. It is safe for concurrent use and
// implements prometheus.Collector.
type Documents struct {
	*fairshare.Pool
}

// NewDocuments returns an unused budget.
func NewDocuments() *Documents {
	return &Documents{fairshare.New(fairshare.Config{
		Name: "large image manifests", Capacity: limits.DocumentsAtOnce, MaxWaiting: limits.DocumentsWaiting, MaxWait: limits.DocumentsWait,
	})}
}

// A hold collects the leases of one operation.
type hold struct {
	mu     sync.Mutex
	leases []*fairshare.Lease
	ended  bool
}

type holdKey struct{}

// Hold starts an operation that retains the documents it reads. Their memory is counted
// until done is called.
func (d *Documents) Hold(ctx context.Context) (_ context.Context, done func()) {
	h := &hold{}
	return context.WithValue(ctx, holdKey{}, h), h.end
}

func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, lease := range h.leases {
		lease.Release()
	}
	h.leases, h.ended = nil, true
}

// add adds a lease to the operation. It returns false if h is nil or the operation has ended.
func (h *hold) add(lease *fairshare.Lease) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.leases = append(h.leases, lease)
	}
	return !h.ended
}

// take waits for n bytes of the budget. It returns fault.Unavailable if they do not become free
// in time.
func (d *Documents) take(ctx context.Context, n int64) (release func(), err error) {
	lease, err := d.Acquire(ctx, fairshare.Request{Client: rpc.CallFrom(ctx).Address(), Amount: n})
	if err != nil {
		return nil, err
	}
	if h, _ := ctx.Value(holdKey{}).(*hold); h.add(lease) {
		return func() {}, nil
	}
	return lease.Release, nil
}

// errTooLarge is returned for a response larger than limits.Document.
var errTooLarge = errors.New("its answer is larger than " + fmt.Sprint(limits.Document>>20) + " MiB")

// Read reads a document of at most limits.Document bytes. contentLength is the stated
// length, or negative if unknown, and is only used to reserve memory. The caller must call
// release when it no longer uses the bytes, unless Read returns an error.
func (d *Documents) Read(ctx context.Context, in io.Reader, contentLength int64) (raw []byte, release func(), err error) {
	if contentLength > limits.Document {
		return nil, nil, errTooLarge
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, in, limits.SmallDocument); err == io.EOF { //nolint:errorlint // truncated input may wrap an io.EOF
		return b.Bytes(), func() {}, nil
	} else if err != nil {
		return nil, nil, err
	}
	if contentLength < 0 {
		contentLength = limits.Document
	}
	if release, err = d.take(ctx, contentLength); err != nil {
		return nil, nil, err
	}
	b.Grow(int(max(contentLength-limits.SmallDocument, 0)) + bytes.MinRead)
	if _, err = b.ReadFrom(io.LimitReader(in, limits.Document+1-limits.SmallDocument)); err == nil && b.Len() > limits.Document {
		err = errTooLarge
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return b.Bytes(), release, nil
}

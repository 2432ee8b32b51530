package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"

	"slipway.dev/services/internal/limits"
)

// Document implements Cache.
func (b *shared) Document(ctx context.Context, name string) (io.ReadCloser, int64, bool) {
	if !b.reading.may(b.now()) {
		return nil, 0, false
	}
	name += "-" + documentMark
	// The timeout is for the whole document, which is small.
	asking, cancel := context.WithTimeout(ctx, bucketTimeout)
	body, o, err := b.bucket.Open(asking, name)
	switch {
	case err == nil:
		b.works(&b.reading)
		b.touch(name, o.Modified)
		return documentBody{body, cancel}, o.Size, true
	case ctx.Err() != nil: // the client disconnected, so the result is unknown
		b.reading.unknown()
	case errors.Is(err, fs.ErrNotExist):
		b.works(&b.reading)
	default:
		b.fails(&b.reading, "reading", err)
	}
	cancel()
	return nil, 0, false
}

// A documentBody ends its request when it is closed.
type documentBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body.
func (d documentBody) Close() error {
	defer d.cancel()
	return d.ReadCloser.Close()
}

// A pendingDocument is a document that is being uploaded.
type pendingDocument struct {
	size int64 // as charged
	// next is the content to upload afterwards in its place; nil for none.
	next []byte
}

// charge returns what a document in a bucket counts towards the size of the cache.
func charge(content []byte) int64 { return int64(len(content)) + limits.DocumentCharge }

// SetDocument implements Cache.
func (b *shared) SetDocument(name string, content []byte) {
	name += "-" + documentMark
	if !b.writing.may(b.now()) {
		return
	}
	d := b.beginDocument(name, content)
	if d == nil {
		b.writing.unknown()
		return
	}
	b.outlive(func() {
		for content := content; content != nil; {
			content = b.upload(name, d, content)
		}
	})
}

// upload uploads a document, and returns the content to upload in its place, if any.
func (b *shared) upload(name string, d *pendingDocument, content []byte) (next []byte) {
	b.documentTurns <- struct{}{}
	defer func() { <-b.documentTurns }()
	ctx, cancel := context.WithTimeout(context.Background(), bucketTidy)
	defer cancel()
	sum := sha256.Sum256(content)
	err := b.bucket.Put(ctx, name, bytes.NewReader(content), int64(len(content)), hex.EncodeToString(sum[:]), false)
	if err != nil {
		b.fails(&b.writing, "writing", err)
	} else {
		b.works(&b.writing)
	}
	return b.endDocument(name, d, err == nil)
}

// beginDocument starts to upload a document. It returns nil if there is no space, if too many wait
// to be uploaded, or if the content will be uploaded after an earlier one of the same name.
func (b *shared) beginDocument(name string, content []byte) *pendingDocument {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.documents[name]; d != nil {
		d.next = content
		return nil
	}
	if b.closed || !b.known || len(b.documents) >= limits.BucketDocuments {
		return nil
	}
	size := charge(content)
	waiting := size
	for _, d := range b.documents {
		waiting += d.size + int64(len(d.next))
	}
	if waiting > limits.BucketDocumentBytes {
		return nil
	}
	if b.total+b.own+size > b.limit || b.own >= b.limit/limits.BucketUnseen {
		b.wake()
		return nil
	}
	b.own += size
	d := &pendingDocument{size: size}
	b.documents[name] = d
	return d
}

// endDocument ends an upload, and returns the content to upload in its place. If put is false,
// nothing was stored, and nothing more is uploaded.
func (b *shared) endDocument(name string, d *pendingDocument, put bool) (next []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !put {
		b.own = max(0, b.own-d.size) // a sweep in the meantime may have counted it
	}
	if !put || d.next == nil {
		delete(b.documents, name)
		return nil
	}
	next, d.next = d.next, nil
	d.size = charge(next)
	b.own += d.size
	return next
}

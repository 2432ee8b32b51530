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

// SetDocument implements Cache.
func (b *shared) SetDocument(name string, content []byte) {
	name += "-" + documentMark
	size := int64(len(content)) + limits.DocumentCharge
	if !b.writing.may(b.now()) {
		return
	}
	if !b.beginDocument(name, size) {
		b.writing.unknown()
		return
	}
	b.outlive(func() {
		b.documentTurns <- struct{}{}
		defer func() { <-b.documentTurns }()
		ctx, cancel := context.WithTimeout(context.Background(), bucketTidy)
		defer cancel()
		sum := sha256.Sum256(content)
		err := b.bucket.Put(ctx, name, bytes.NewReader(content), int64(len(content)), hex.EncodeToString(sum[:]), false)
		b.endDocument(name, err == nil)
		if err != nil {
			b.fails(&b.writing, "writing", err)
			return
		}
		b.works(&b.writing)
	})
}

// beginDocument starts to upload a document. It returns false if there is no space, if too
// many wait to be uploaded, or if this process is already uploading it.
func (b *shared) beginDocument(name string, size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.known || b.documents[name] != 0 || len(b.documents) >= limits.BucketDocuments {
		return false
	}
	waiting := size
	for _, n := range b.documents {
		waiting += n
	}
	if waiting > limits.BucketDocumentBytes {
		return false
	}
	if b.total+b.own+size > b.limit || b.own >= b.limit/limits.BucketUnseen {
		b.wake()
		return false
	}
	b.own += size
	b.documents[name] = size
	return true
}

// endDocument ends an upload. If put is false, nothing was stored.
func (b *shared) endDocument(name string, put bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !put {
		b.own = max(0, b.own-b.documents[name]) // a sweep in the meantime may have counted it
	}
	delete(b.documents, name)
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// errElsewhere is returned when a registry responds with a different range than requested.
// It is not retried.
var errElsewhere = errors.New("it returns a different range than requested")

// A resumingReader reads a body of known length. If the connection breaks, it requests the
// rest of the blob. The registry may be unavailable for up to limits.BlobResumeWindow.
type resumingReader struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no argument for it
	body io.ReadCloser
	at   int64 // offset of the next byte in the blob
	left int64 // bytes still to come
	// broken is the error of body, or nil while it can be read.
	broken  error
	resumed int
	// moved states that data was read from the connection without the body's knowledge.
	moved  bool
	reopen func(at, left int64) (io.ReadCloser, error)
}

// Read implements io.Reader.
func (r *resumingReader) Read(p []byte) (int, error) {
	if r.broken != nil {
		if err := r.resume(); err != nil {
			return 0, fmt.Errorf("reading a blob with %d bytes to come: %w", r.left, err)
		}
	}
	if r.moved {
		if r.left <= 0 {
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), r.left)]
	}
	n, err := r.body.Read(p)
	r.at += int64(n)
	r.left -= int64(n)
	if err == nil || r.left <= 0 && errors.Is(err, io.EOF) {
		return n, err
	}
	r.broken = err
	return n, nil // returns the data that was read before the error
}

// Moves reports whether MoveTo may move data.
func (r *resumingReader) Moves() bool {
	_, ok := r.body.(*wiredBody)
	return ok
}

// MoveTo copies up to n bytes from the connection to w, if possible without copying them to
// this process. It may copy nothing and return no error, in which case the caller must use
// Read. within is the timeout for the registry to send the data. The error may be from
// either side. An error of the registry occurs again in Read, which requests the rest of
// the blob.
func (r *resumingReader) MoveTo(w io.Writer, n int64, within time.Duration) (int64, error) {
	b, ok := r.body.(*wiredBody)
	if !ok || r.broken != nil {
		return 0, nil //nolint:nilerr // Read handles the error
	}
	n, err := b.moveTo(w, min(n, r.left), within)
	r.at += n
	r.left -= n
	r.moved = r.moved || n > 0
	return n, err
}

// resume requests the rest of the blob until it succeeds or fails permanently.
func (r *resumingReader) resume() error {
	if r.resumed == limits.BlobResumptions || r.ctx.Err() != nil {
		return errors.Join(r.ctx.Err(), r.broken)
	}
	r.resumed++
	since := time.Now()
	for try := 1; ; try++ {
		body, err := r.reopen(r.at, r.left)
		if err == nil {
			_ = r.body.Close()
			r.body, r.broken, r.moved = body, nil, false
			return nil
		}
		away := errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout)
		if !away || errors.Is(err, errElsewhere) || time.Since(since) >= limits.BlobResumeWindow {
			return errors.Join(r.broken, err)
		}
		if !sleep(r.ctx, min(backoff(min(try, 3)), 2*time.Second)) {
			return errors.Join(r.ctx.Err(), r.broken, err)
		}
	}
}

// Close implements io.Closer.
func (r *resumingReader) Close() error { return r.body.Close() }

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

// errElsewhere is a registry that does not give the part it was asked for; it will give
// no other the next time.
var errElsewhere = errors.New("it does not go on where it was cut")

// resuming reads a body of known length and, when its connection breaks, goes on with
// another: the registry may be away for limits.BlobAway.
type resuming struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no argument for it
	body io.ReadCloser
	at   int64 // of the blob, where the next byte is
	left int64 // bytes still to come
	// broken is why body ended too early; nil while it goes on.
	broken  error
	resumed int
	// moved says that bytes went past the body, which does not know that they did.
	moved bool
	again func(at, left int64) (io.ReadCloser, error)
}

// Read implements io.Reader.
func (r *resuming) Read(p []byte) (int, error) {
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
	return n, nil // what was read is the caller's at once
}

// Moves says whether MoveTo may ever move anything.
func (r *resuming) Moves() bool {
	_, ok := r.body.(*wired)
	return ok
}

// MoveTo has w read up to n bytes from the connection itself, without a copy where the
// kernel can do it. It may move nothing, with no error: then Read goes on. The time that
// the registry has to send them is within. An error may be of either end; a registry's
// comes again from Read, which asks for the rest.
func (r *resuming) MoveTo(w io.Writer, n int64, within time.Duration) (int64, error) {
	b, ok := r.body.(*wired)
	if !ok || r.broken != nil {
		return 0, nil //nolint:nilerr // Read meets what is broken
	}
	n, err := b.moveTo(w, min(n, r.left), within)
	r.at += n
	r.left -= n
	r.moved = r.moved || n > 0
	return n, err
}

// resume asks for the rest until it comes, or will not come.
func (r *resuming) resume() error {
	if r.resumed == limits.BlobResumptions || r.ctx.Err() != nil {
		return errors.Join(r.ctx.Err(), r.broken)
	}
	r.resumed++
	since := time.Now()
	for try := 1; ; try++ {
		body, err := r.again(r.at, r.left)
		if err == nil {
			_ = r.body.Close()
			r.body, r.broken, r.moved = body, nil, false
			return nil
		}
		away := errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout)
		if !away || errors.Is(err, errElsewhere) || time.Since(since) >= limits.BlobAway {
			return errors.Join(r.broken, err)
		}
		if !sleep(r.ctx, min(backoff(min(try, 3)), 2*time.Second)) {
			return errors.Join(r.ctx.Err(), r.broken, err)
		}
	}
}

// Close implements io.Closer.
func (r *resuming) Close() error { return r.body.Close() }

package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// uploadPiece is the size of the parts in which a blob is buffered, and uploadPieces the
// number of parts that may wait for the bucket.
const (
	uploadPiece  = 64 << 10
	uploadPieces = 16
)

// errSlow cancels an upload that delays its client for too long.
var errSlow = errors.New("the bucket takes blobs more slowly than clients do")

// An upload is a blob that is being uploaded to the bucket. It starts with the first part.
// The last part is only sent if the blob is complete and verified. A cancelled upload
// leaves nothing in the bucket.
type upload struct {
	of          *shared
	key         Key
	start       func() // once
	cancel      func()
	done        chan struct{} // closed when the upload has ended
	pieces      chan []byte
	free        chan []byte
	left        int64         // bytes that have not been received
	delayBudget time.Duration // remaining time for which the client may be delayed
	begun       bool
	committed   atomic.Bool
	slow        atomic.Bool
}

func newUpload(b *shared, k Key) *upload {
	u := &upload{
		of: b, key: k, done: make(chan struct{}), left: k.Size, delayBudget: limits.BucketHold,
		pieces: make(chan []byte, uploadPieces), free: make(chan []byte, uploadPieces+2),
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.BucketUpload)
	u.cancel = cancel
	u.start = sync.OnceFunc(func() { b.outlive(func() { u.run(ctx) }) })
	return u
}

// write implements sink.
func (u *upload) write(p []byte) bool {
	u.begun = true
	u.start()
	for len(p) > 0 {
		piece := u.buffer()
		n := copy(piece, p)
		if !u.send(piece[:n]) {
			return false
		}
		p = p[n:]
		u.left -= int64(n)
		u.delayBudget += time.Duration(n) * time.Second / limits.BucketRate
	}
	if u.left == 0 {
		close(u.pieces)
	}
	return true
}

// buffer returns an empty part, reusing one that was sent if possible.
func (u *upload) buffer() []byte {
	select {
	case piece := <-u.free:
		return piece[:uploadPiece]
	default:
		return make([]byte, uploadPiece)
	}
}

// send passes a part to the bucket. It waits for as long as the client may be delayed.
func (u *upload) send(piece []byte) bool {
	select {
	case <-u.done:
		return false
	case u.pieces <- piece:
		return true
	default:
	}
	start := time.Now()
	timer := time.NewTimer(u.delayBudget)
	defer timer.Stop()
	select {
	case <-u.done:
		return false
	case u.pieces <- piece:
		u.delayBudget -= time.Since(start)
		return true
	case <-timer.C:
		u.slow.Store(true)
		return false
	}
}

func (u *upload) run(ctx context.Context) {
	defer u.cancel()
	defer close(u.done)
	err := u.put(ctx)
	u.of.forget(u, err == nil)
	switch {
	case err == nil:
		u.of.works(&u.of.writing)
	case u.slow.Load():
		u.of.fails(&u.of.writing, "writing", errSlow)
	case errors.Is(err, context.Canceled) && !u.committed.Load() || errors.Is(err, fs.ErrExist): // it was cancelled, or another replica has uploaded it
		u.of.writing.unknown()
	default:
		u.of.fails(&u.of.writing, "writing", err)
	}
}

func (u *upload) put(ctx context.Context) error {
	name := u.key.name()
	release, err := u.of.claim(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	sum := "" // the bucket verifies it as well
	if u.key.Digest.Algorithm() == digest.SHA256 {
		sum = u.key.Digest.Encoded()
	}
	return u.of.bucket.Put(ctx, name, &reading{from: u, over: ctx.Done()}, u.key.Size, sum, false)
}

// commit implements sink.
func (u *upload) commit() {
	u.committed.Store(true)
	time.AfterFunc(limits.BucketCommit, u.cancel)
}

// discard implements sink.
func (u *upload) discard() {
	if !u.committed.Load() {
		u.cancel()
	}
}

// end implements sink.
func (u *upload) end() {
	u.discard()
	if !u.begun {
		u.cancel()
		u.of.forget(u, false)
		u.of.writing.unknown()
	}
}

// A reading is the request body of an upload.
type reading struct {
	from  *upload
	over  <-chan struct{}
	piece []byte
	read  int // bytes of piece that were read
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	if r.read == len(r.piece) {
		if r.piece != nil {
			select {
			case r.from.free <- r.piece:
			default:
			}
			r.piece, r.read = nil, 0
		}
		select {
		case <-r.over:
			return 0, context.Canceled
		case piece, ok := <-r.from.pieces:
			if !ok {
				return 0, io.EOF
			}
			r.piece, r.read = piece, 0
		}
	}
	n := copy(p, r.piece[r.read:])
	r.read += n
	return n, nil
}

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

// uploadPiece is what a blob is taken in, uploadPieces how many wait for the bucket.
const (
	uploadPiece  = 64 << 10
	uploadPieces = 16
)

// errSlow is why an upload ends that holds a client up.
var errSlow = errors.New("the bucket takes blobs more slowly than clients do")

// upload is a blob on its way to the bucket. It begins with the first piece. The bucket has
// the last one only of a whole blob with the right digest, and an upload that ends too
// early leaves nothing there.
type upload struct {
	of        *shared
	key       Key
	start     func() // once
	cancel    func()
	done      chan struct{} // closed when the upload has ended
	pieces    chan []byte
	free      chan []byte
	left      int64         // bytes that have not come
	patience  time.Duration // for which the client may yet be held up
	begun     bool
	committed atomic.Bool
	slow      atomic.Bool
}

func newUpload(b *shared, k Key) *upload {
	u := &upload{
		of: b, key: k, done: make(chan struct{}), left: k.Size, patience: limits.BucketHold,
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
		u.patience += time.Duration(n) * time.Second / limits.BucketRate
	}
	if u.left == 0 {
		close(u.pieces)
	}
	return true
}

// buffer is an empty piece, of those that were read if there is one.
func (u *upload) buffer() []byte {
	select {
	case piece := <-u.free:
		return piece[:uploadPiece]
	default:
		return make([]byte, uploadPiece)
	}
}

// send waits for the bucket for as long as a client may be held up.
func (u *upload) send(piece []byte) bool {
	select {
	case <-u.done:
		return false
	case u.pieces <- piece:
		return true
	default:
	}
	start := time.Now()
	timer := time.NewTimer(u.patience)
	defer timer.Stop()
	select {
	case <-u.done:
		return false
	case u.pieces <- piece:
		u.patience -= time.Since(start)
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
	case errors.Is(err, context.Canceled) && !u.committed.Load() || errors.Is(err, fs.ErrExist): // it was given up, or another has it
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
	sum := "" // the bucket verifies it, too
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

// giveUp implements sink.
func (u *upload) giveUp() {
	if !u.committed.Load() {
		u.cancel()
	}
}

// end implements sink.
func (u *upload) end() {
	u.giveUp()
	if !u.begun {
		u.cancel()
		u.of.forget(u, false)
		u.of.writing.unknown()
	}
}

// reading is an upload as the bucket reads it.
type reading struct {
	from  *upload
	over  <-chan struct{}
	piece []byte
	read  int // of it
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

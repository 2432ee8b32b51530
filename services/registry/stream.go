package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// slowest is how long a client may take to accept the next piece of a blob.
const slowest = 2 * time.Minute

// The kernel moves large pieces at half the cost of small ones, but memory is
// pieces in flight: so only streams that last get a large one, and only so many
// of them.
const (
	smallPiece  = 64 << 10
	largePiece  = 1 << 20
	largePieces = 32
)

// streams copies blobs with memory that is bounded for large pieces and reused
// for small ones. Safe for concurrent use.
type streams struct {
	small sync.Pool
	large chan []byte // nil until it is first used
}

func newStreams() *streams {
	s := &streams{
		small: sync.Pool{New: func() any { return new([smallPiece]byte) }},
		large: make(chan []byte, largePieces),
	}
	for range largePieces {
		s.large <- nil
	}
	return s
}

// mover is a body that the kernel can move on from its connection, without a copy.
type mover interface {
	// Moves says whether MoveTo may ever move anything.
	Moves() bool
	// MoveTo moves at most n bytes, for which the other side has so long. Where it moves
	// none, and there is no error, the next bytes are read.
	MoveTo(w io.Writer, n int64, within time.Duration) (int64, error)
}

// copy passes a body on to a client; one that stops reading is given up. plain says that
// the client's connection takes bytes as they are.
func (s *streams) copy(w http.ResponseWriter, body io.Reader, plain bool) error {
	small := s.small.Get().(*[smallPiece]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer s.small.Put(small)
	err := copyPieces(w, io.LimitReader(body, largePiece), small[:])
	if err != nil {
		return err
	}
	if m, ok := body.(mover); ok && plain && m.Moves() {
		return movePieces(w, body, m, small[:])
	}
	select {
	case piece := <-s.large:
		if piece == nil {
			piece = make([]byte, largePiece)
		}
		defer func() { s.large <- piece }()
		return copyPieces(w, body, piece)
	default:
		return copyPieces(w, body, small[:])
	}
}

// movePieces copies only what the kernel cannot move.
func movePieces(w http.ResponseWriter, body io.Reader, m mover, piece []byte) error {
	rc := http.NewResponseController(w)
	for {
		began := time.Now()
		_ = rc.SetWriteDeadline(began.Add(slowest))
		n, err := m.MoveTo(w, largePiece, slowest/2)
		if err != nil && !isReaders(err, began) {
			return fmt.Errorf("moving a blob: %w", err)
		}
		if n > 0 && err == nil {
			continue
		}
		if end, err := copyPiece(w, rc, body, piece); end || err != nil {
			return err
		}
	}
}

// isReaders says whether an error of MoveTo may pass with another read. One of the client's
// side may not: what the kernel had taken from the registry by then is lost, and what
// follows would be in its place. A connection that was reset can be either one, and is
// safe: the client's takes nothing any more.
func isReaders(err error, began time.Time) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrDeadlineExceeded) && time.Since(began) < slowest
}

func copyPieces(w http.ResponseWriter, body io.Reader, piece []byte) error {
	rc := http.NewResponseController(w)
	for {
		if end, err := copyPiece(w, rc, body, piece); end || err != nil {
			return err
		}
	}
}

// copyPiece copies what one read brings, and says whether that was the end.
func copyPiece(w http.ResponseWriter, rc *http.ResponseController, body io.Reader, piece []byte) (end bool, err error) {
	n, err := body.Read(piece)
	if n > 0 {
		_ = rc.SetWriteDeadline(time.Now().Add(slowest)) // not every writer can; it then has no limit
		if _, err := w.Write(piece[:n]); err != nil {
			return false, fmt.Errorf("writing a blob: %w", err)
		}
	}
	if err == io.EOF { // not errors.Is: a body that ends too early may say why with an io.EOF in it
		return true, nil
	}
	return false, err
}

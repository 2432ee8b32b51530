package registry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// pieceTimeout is how long a client may take to accept the next piece of a blob.
const pieceTimeout = 2 * time.Minute

// The kernel moves large pieces at half the cost of small ones, but each piece in flight
// takes memory. So only long streams use a large piece, and their number is limited.
const (
	smallPiece  = 64 << 10
	largePiece  = 1 << 20
	largePieces = 32
)

// streams copies blobs with bounded memory for large pieces and reused memory for small
// ones. It is safe for concurrent use.
type streams struct {
	small sync.Pool
	large chan []byte // nil until first used
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

// A mover is a body that the kernel can splice from its connection without a copy.
type mover interface {
	// Moves reports whether MoveTo may ever move anything.
	Moves() bool
	// MoveTo moves at most n bytes, and w has the given time to accept them. If it moves
	// none and returns no error, the caller must read the next bytes instead.
	MoveTo(w io.Writer, n int64, within time.Duration) (int64, error)
}

// copy copies a body to a client, and gives up when the client stops reading. The argument
// plain reports whether the client's connection takes bytes unchanged, that is, without
// TLS.
func (s *streams) copy(w http.ResponseWriter, body io.Reader, plain bool) error {
	if err := s.copySmall(w, io.LimitReader(body, largePiece)); err != nil {
		return err
	}
	if m, ok := body.(mover); ok && plain && m.Moves() {
		return s.move(w, body, m)
	}
	select {
	case piece := <-s.large:
		if piece == nil {
			piece = make([]byte, largePiece)
		}
		defer func() { s.large <- piece }()
		return copyPieces(w, body, piece)
	default:
		return s.copySmall(w, body)
	}
}

// copySmall copies a body in small pieces.
func (s *streams) copySmall(w http.ResponseWriter, body io.Reader) error {
	return s.withSmall(func(piece []byte) error { return copyPieces(w, body, piece) })
}

// withSmall lends a small piece.
func (s *streams) withSmall(use func(piece []byte) error) error {
	small := s.small.Get().(*[smallPiece]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer s.small.Put(small)
	return use(small[:])
}

// move copies only what the kernel cannot move. It has no piece while it waits for the kernel: a
// thousand long streams would take 64 MB.
func (s *streams) move(w http.ResponseWriter, body io.Reader, m mover) error {
	rc := http.NewResponseController(w)
	for end := false; !end; {
		began := time.Now()
		_ = rc.SetWriteDeadline(began.Add(pieceTimeout))
		n, err := m.MoveTo(w, largePiece, pieceTimeout/2)
		if err != nil && !isReaders(err, began) {
			return fmt.Errorf("moving a blob: %w", err)
		}
		if n > 0 && err == nil {
			continue
		}
		err = s.withSmall(func(piece []byte) (err error) {
			end, err = copyPiece(w, rc, body, piece)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isReaders reports whether an error of MoveTo came from the body's connection, so that another
// read may succeed. After an error of the client's connection there must be no other read: the
// bytes that the kernel has already taken are lost, and later bytes would be sent in their
// place. A reset or closed connection may be either of the two. Another read is safe then: if
// it is the client's connection, that accepts no more bytes.
func isReaders(err error, began time.Time) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) && time.Since(began) < pieceTimeout
}

func copyPieces(w http.ResponseWriter, body io.Reader, piece []byte) error {
	rc := http.NewResponseController(w)
	for {
		if end, err := copyPiece(w, rc, body, piece); end || err != nil {
			return err
		}
	}
}

// copyPiece copies the result of one read, and reports whether the body has ended.
func copyPiece(w http.ResponseWriter, rc *http.ResponseController, body io.Reader, piece []byte) (end bool, err error) {
	n, err := body.Read(piece)
	if n > 0 {
		_ = rc.SetWriteDeadline(time.Now().Add(pieceTimeout)) // not every writer supports deadlines
		if _, err := w.Write(piece[:n]); err != nil {
			return false, fmt.Errorf("writing a blob: %w", err)
		}
	}
	if err == io.EOF { // not errors.Is, since an early end of the body may wrap io.EOF
		return true, nil
	}
	return false, err
}

package registry

import (
	"fmt"
	"io"
	"net/http"
	"sync"
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

// copy passes a body on to a client; one that stops reading is given up.
func (s *streams) copy(w http.ResponseWriter, body io.Reader) error {
	small := s.small.Get().(*[smallPiece]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer s.small.Put(small)
	err := copyPieces(w, io.LimitReader(body, largePiece), small[:])
	if err != nil {
		return err
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

func copyPieces(w http.ResponseWriter, body io.Reader, piece []byte) error {
	rc := http.NewResponseController(w)
	for {
		n, err := body.Read(piece)
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(slowest)) // not every writer can; it then has no limit
			if _, err := w.Write(piece[:n]); err != nil {
				return fmt.Errorf("writing a blob: %w", err)
			}
		}
		if err == io.EOF { // not errors.Is: a body that ends too early may say why with an io.EOF in it
			return nil
		}
		if err != nil {
			return err
		}
	}
}

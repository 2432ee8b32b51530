package registry

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// serveFile serves a file or the requested range of it. On a plain connection the kernel
// copies the bytes. A client that stops reading is disconnected.
func serveFile(w http.ResponseWriter, r *http.Request, f *os.File) {
	http.ServeContent(pieces{w}, r, "", time.Time{}, f)
}

// pieces is a response whose deadline applies to each piece of a file, not to the whole.
type pieces struct{ http.ResponseWriter }

// ReadFrom implements io.ReaderFrom. The kernel only copies a file that is wrapped in a
// single io.LimitedReader.
func (w pieces) ReadFrom(src io.Reader) (sum int64, err error) {
	part, ok := src.(*io.LimitedReader) // as http.ServeContent passes it
	if !ok {
		part = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	rc := http.NewResponseController(w.ResponseWriter)
	for part.N > 0 {
		_ = rc.SetWriteDeadline(time.Now().Add(pieceTimeout)) // not every writer supports deadlines
		n, err := io.CopyN(w.ResponseWriter, part.R, min(part.N, largePiece))
		sum += n
		part.N -= n
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

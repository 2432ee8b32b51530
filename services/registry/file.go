package registry

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// serveFile answers with a file, or the part of it that is asked for. The kernel moves it
// to a plain connection; a client that stops reading is given up.
func serveFile(w http.ResponseWriter, r *http.Request, f *os.File) {
	http.ServeContent(pieces{w}, r, "", time.Time{}, f)
}

// pieces is a response with time for each piece of a file, not for the whole.
type pieces struct{ http.ResponseWriter }

// ReadFrom implements io.ReaderFrom. The kernel moves a file that has one bound around it,
// not one with two.
func (w pieces) ReadFrom(src io.Reader) (sum int64, err error) {
	part, ok := src.(*io.LimitedReader) // as http.ServeContent has it
	if !ok {
		part = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	rc := http.NewResponseController(w.ResponseWriter)
	for part.N > 0 {
		_ = rc.SetWriteDeadline(time.Now().Add(slowest)) // not every writer can; it then has no limit
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

// Package httprecord remembers how an HTTP handler responded, for logs and metrics.
package httprecord

import (
	"io"
	"net/http"
)

// Writer passes a response on and remembers it. Files still go to the connection
// without passing through memory.
type Writer struct {
	http.ResponseWriter

	Code  int   // of the first header that was written; 0 when nothing was
	Bytes int64 // of the body, so far
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(code int) {
	w.began(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.began(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.Bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	w.began(http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, src)
	w.Bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *Writer) began(code int) {
	if w.Code == 0 {
		w.Code = code
	}
}

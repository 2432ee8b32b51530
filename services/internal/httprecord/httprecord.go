// Package httprecord records the status code and size of HTTP responses, for logs and
// metrics.
package httprecord

import (
	"io"
	"net/http"
)

// A Writer is an http.ResponseWriter that records the response. Files are still copied to the
// connection by the kernel.
type Writer struct {
	http.ResponseWriter

	Code  int   // the first status code that was written; 0 if none was
	Bytes int64 // the number of bytes of the body that were written
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(code int) {
	w.recordCode(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.recordCode(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.Bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	w.recordCode(http.StatusOK)
	n, err := io.Copy(w.ResponseWriter, src)
	w.Bytes += n
	return n, err
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *Writer) recordCode(code int) {
	if w.Code == 0 {
		w.Code = code
	}
}

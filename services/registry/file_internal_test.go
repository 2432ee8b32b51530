package registry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/services/internal/httprecord"
)

// sinks is a response that records the argument of ReadFrom.
type sinks struct {
	*httptest.ResponseRecorder
	from []io.Reader
}

func (s *sinks) ReadFrom(src io.Reader) (int64, error) {
	s.from = append(s.from, src)
	return io.Copy(io.Discard, src)
}

// TestFilesAreSentByTheKernel checks that the connection reads from the file itself through
// one io.LimitedReader, as sendfile requires.
func TestFilesAreSentByTheKernel(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(path, make([]byte, 2*largePiece+5), 0o600); err != nil {
		t.Fatal(err)
	}
	for ranged, want := range map[string]struct {
		pieces int
		bytes  int64
	}{"": {3, 2*largePiece + 5}, "bytes=10-": {2, 2*largePiece - 5}, "bytes=-7": {1, 7}} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if ranged != "" {
			r.Header.Set("Range", ranged)
		}
		sink := &sinks{ResponseRecorder: httptest.NewRecorder()}
		rec := &httprecord.Writer{ResponseWriter: &httprecord.Writer{ResponseWriter: sink}}
		serveFile(rec, r, f)
		if len(sink.from) != want.pieces || rec.Bytes != want.bytes {
			t.Errorf("%q: %d bytes in %d pieces", ranged, rec.Bytes, len(sink.from))
		}
		for _, src := range sink.from {
			if part, ok := src.(*io.LimitedReader); !ok || part.R != io.Reader(f) {
				t.Errorf("%q: it reads from a %T", ranged, src)
			}
		}
	}
}

package httprecord_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/services/internal/httprecord"
)

// TestWriter responds over a real connection in all ways that handlers use.
func TestWriter(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		handle func(w *httprecord.Writer)
		code   int
		body   string
	}{
		"nothing": {func(*httprecord.Writer) {}, 0, ""},
		"a body":  {func(w *httprecord.Writer) { _, _ = w.Write([]byte("text")) }, 200, "text"},
		"a header, twice": {func(w *httprecord.Writer) {
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte("short"))
		}, 418, "short"},
		"a file": {func(w *httprecord.Writer) {
			f, err := os.Open(file)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			_, _ = io.Copy(w, f)
		}, 200, "from a file"},
		"flushed": {func(w *httprecord.Writer) {
			_, _ = w.Write([]byte("now"))
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}, 200, "now"},
	} {
		var w *httprecord.Writer
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			w = &httprecord.Writer{ResponseWriter: rw}
			c.handle(w)
		}))
		resp, err := http.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		s.Close()
		if err != nil || string(body) != c.body || w.Code != c.code || w.Bytes != int64(len(c.body)) {
			t.Errorf("%s: %q, %v; recorded the code %d and %d bytes", name, body, err, w.Code, w.Bytes)
		}
	}
}

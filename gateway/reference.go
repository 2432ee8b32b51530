package gateway

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/swaggest/swgui/v5/static"
)

//go:embed reference
var page embed.FS

// pageCSP restricts a page to its own origin, and forbids framing.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// reference serves the OpenAPI document of an API, a page to read it and to try the calls,
// and, for an API without a page of its own, a start page: /openapi.json, /openapi.yml,
// /openapi/ and /. Everything is embedded, and prepared at the first request for any of it, as
// most processes start without one.
type reference struct {
	files func() (map[string]file, error)
	next  http.Handler
}

// file is a file to serve unchanged. zipped returns its gzipped form; nil if it has none.
// cache is its Cache-Control, and policy its Content-Security-Policy if it is not pageCSP.
type file struct {
	kind, etag, cache string
	policy            string
	text              []byte
	zipped            func() []byte
}

func newFile(name string, text []byte) file {
	sum := sha256.Sum256(text)
	return file{kind: mediaType(name), etag: `"` + hex.EncodeToString(sum[:8]) + `"`, cache: "no-cache", text: text}
}

// mediaType returns the media type of an embedded file, independent of the machine's table of
// types.
func mediaType(name string) string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": scriptType, ".mjs": scriptType, ".svg": "image/svg+xml", ".png": "image/png",
		".LICENSE": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8",
		".json": "application/json", ".yml": "application/yaml", // RFC 9512
	}[path.Ext(name)]
}

const scriptType = "text/javascript; charset=utf-8"

// withReference adds the reference to an API.
func withReference(next http.Handler, json, yaml []byte) http.Handler {
	return &reference{next: next, files: sync.OnceValues(func() (map[string]file, error) {
		return referenceFiles(json, yaml)
	})}
}

// referenceFiles returns the files of the reference by their paths.
func referenceFiles(json, yaml []byte) (map[string]file, error) {
	files := map[string]file{"/openapi.json": newFile("openapi.json", json), "/openapi.yml": newFile("openapi.yml", yaml)}
	for at, name := range map[string]string{"/": "home.html", "/openapi/": "index.html", "/openapi/start.js": "start.js"} {
		text, err := page.ReadFile("reference/" + name)
		if err != nil {
			return nil, fmt.Errorf("reading the reference page: %w", err)
		}
		files[at] = newFile(name, text)
	}
	for _, name := range []string{"swagger-ui-bundle.js.gz", "swagger-ui.css.gz", "favicon-32x32.png"} {
		text, err := fs.ReadFile(static.FS, name)
		if err != nil {
			return nil, fmt.Errorf("reading the reference page: %w", err)
		}
		plain := strings.TrimSuffix(name, ".gz")
		f := newFile(plain, text)
		if plain != name {
			f.text, f.zipped = nil, func() []byte { return text }
		}
		files["/openapi/"+plain] = f
	}
	return files, nil
}

func (r *reference) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/" && !strings.HasPrefix(req.URL.Path, "/openapi") || req.Method != http.MethodGet && req.Method != http.MethodHead {
		r.next.ServeHTTP(w, req)
		return
	}
	if req.URL.Path == "/openapi" { // relative, since the prefix of the API is unknown here
		w.Header().Set("Location", "openapi/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	files, err := r.files()
	if err != nil {
		noteFailure(req.Context(), err)
		WriteMessage(w, http.StatusInternalServerError, "Internal error")
		return
	}
	f, ok := files[req.URL.Path]
	if !ok {
		r.next.ServeHTTP(w, req)
		return
	}
	f.serve(w, req)
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	text := f.head(w, r)
	if text == nil {
		noteFailure(r.Context(), errors.New("the embedded file cannot be read"))
		WriteMessage(w, http.StatusInternalServerError, "Internal error")
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// head sets the headers of a page or file and returns the body.
func (f file) head(w http.ResponseWriter, r *http.Request) (text []byte) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", cmp.Or(f.policy, pageCSP))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", f.cache)
	h.Set("Etag", f.etag)
	if f.zipped == nil {
		return f.text
	}
	h.Set("Vary", "Accept-Encoding")
	switch {
	case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		h.Set("Content-Encoding", "gzip")
		return f.zipped()
	case f.text != nil:
		return f.text
	}
	return unzip(f.zipped())
}

func unzip(zipped []byte) []byte {
	from, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(from)
	if err != nil {
		return nil
	}
	return text
}

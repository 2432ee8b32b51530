package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
)

// serve answers a request that its login allows; g is what a build has, and nil for the
// service itself.
//
// The library keeps index.json, and looks without a lock whether a repository is there, which
// it sets whenever it reads that file again. So whatever it is asked, it is asked alone for that
// repository. Nobody waits there for a client: what it sends is read before, and what it is sent is
// written after. Blobs are files, which it has no part in.
func (s *Store) serve(w http.ResponseWriter, r *http.Request, g *caller.Grant) {
	repository, d := repositoryOf(r.URL.Path), digestOf(r.URL.Path)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/blobs/uploads"):
		s.begin(w, r, repository, g)
	case strings.Contains(r.URL.Path, "/blobs/uploads/"):
		s.serveUpload(w, r, repository, g)
	case reads && d != "" && strings.Contains(r.URL.Path, "/blobs/"):
		s.serveBlob(w, r, repository, d)
	default:
		s.alone(w, r, repository, g)
	}
}

// alone has the library answer.
func (s *Store) alone(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.Document))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "The manifest is too large")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodPut {
		is, why := s.layout(repository).judge(body, r.Header.Get("Content-Type"))
		if why != "" {
			refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", why)
			return
		}
		r.Header.Set("Content-Type", is)
	}
	s.inTurn(r, repository, body, g).send(w)
}

func (s *Store) inTurn(r *http.Request, repository string, body []byte, g *caller.Grant) *answer {
	door := s.door(repository)
	door.Lock()
	defer door.Unlock()
	out := newAnswer()
	if g != nil && s.taken(r, body, g.Build) {
		refuse(out, http.StatusForbidden, "DENIED", "The name is that of a finished image, which another build has made")
		return out
	}
	s.touch(repository, digestOf(r.URL.Path))
	s.registry.ServeHTTP(out, r)
	s.touch(repository, digest.Digest(out.header.Get("Docker-Content-Digest")))
	return out
}

// serveBlob answers with a blob, or says that it is there: then an image of it can
// be pushed (see touch), and so nothing may be removed meanwhile. A blob that is open can
// be read to its end though it is removed.
func (s *Store) serveBlob(w http.ResponseWriter, r *http.Request, repository string, d digest.Digest) {
	if r.Method == http.MethodHead {
		door := s.door(repository)
		door.RLock()
		defer door.RUnlock()
	}
	s.touch(repository, d)
	f, err := os.Open(s.layout(repository).path(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "The blob is not there")
		return
	case err != nil:
		refuse(w, http.StatusInternalServerError, "UNKNOWN", "The blob cannot be read")
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", d.String())
	http.ServeContent(w, r, "", time.Time{}, f)
}

func (s *Store) door(repository string) *sync.RWMutex {
	made, _ := s.doors.LoadOrStore(repository, &sync.RWMutex{})
	return made.(*sync.RWMutex) //nolint:forcetypeassert // the map holds nothing else
}

// touch notes the use of a manifest or a blob: the time of its file is when it was
// last asked for. So whoever was told that a blob is there can push an image of it.
func (s *Store) touch(repository string, d digest.Digest) (there bool) {
	if d.Validate() != nil {
		return false
	}
	now := time.Now()
	return os.Chtimes(s.layout(repository).path(d), now, now) == nil
}

// repositoryOf is the repository that a path of the distribution API names; "" for none.
// Kinds are looked for from its end: a repository may be called like one.
func repositoryOf(path string) string {
	name, end := strings.TrimPrefix(path, "/v2/"), -1
	for _, kind := range []string{"/blobs/", "/manifests/", "/referrers/", "/tags/"} {
		end = max(end, strings.LastIndex(name, kind))
	}
	if end < 0 || !filepath.IsLocal(name[:end]) {
		return ""
	}
	return name[:end]
}

// ask has the library answer the service itself.
func (s *Store) ask(method, path string) (*answer, error) {
	a := newAnswer()
	r, err := http.NewRequestWithContext(context.Background(), method, path, http.NoBody)
	if err == nil {
		s.registry.ServeHTTP(a, r)
	}
	return a, err
}

// answer is one that is sent later, or only read.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: http.Header{}, status: http.StatusOK} }

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = a.body.WriteTo(w) // the client may be gone; nobody is left to tell
}

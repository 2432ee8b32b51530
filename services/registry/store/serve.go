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

// serve handles an authorized request. g is the grant of a build, or nil for the service
// itself.
//
// olareg caches index.json. It accesses the state of a repository without a lock, and
// changes it when it reads that file again. Calls of olareg are therefore serialized per
// repository. Request bodies are read before and responses are written after the call, so
// that slow clients do not block others. Blobs are served from files without olareg.
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
		s.serveManifest(w, r, repository, g)
	}
}

// serveManifest handles a request with olareg.
func (s *Store) serveManifest(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.Document))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "The manifest is too large")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodPut {
		is, why := s.layout(repository).validate(body, r.Header.Get("Content-Type"))
		if why != "" {
			refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", why)
			return
		}
		r.Header.Set("Content-Type", is)
	}
	s.serialized(r, repository, body, g).send(w)
}

func (s *Store) serialized(r *http.Request, repository string, body []byte, g *caller.Grant) *bufferedResponse {
	lock := s.lock(repository)
	lock.Lock()
	defer lock.Unlock()
	out := newResponse()
	if g != nil && s.isTagTaken(r, body, g.Build) {
		refuse(out, http.StatusForbidden, "DENIED", "The tag belongs to an image of another build")
		return out
	}
	if l, d := s.layout(repository), digestFor(r, body); r.Method == http.MethodPut && l.isComposed(d) {
		_ = os.Remove(l.path(d)) // olareg stores the manifest, as it reads manifests from files
	}
	s.touch(repository, digestOf(r.URL.Path))
	s.registry.ServeHTTP(out, r)
	d := digest.Digest(out.header.Get("Docker-Content-Digest"))
	s.touch(repository, d)
	if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; reads && out.status == http.StatusOK && s.hasBroken(r.Context(), repository, d) {
		out = newResponse()
		refuse(out, http.StatusNotFound, "MANIFEST_UNKNOWN", "A blob of the image has lost a part")
	}
	return out
}

// digestFor returns the digest under which a pushed manifest is stored.
func digestFor(r *http.Request, body []byte) digest.Digest {
	if d := digestOf(r.URL.Path); d != "" {
		return d.Algorithm().FromBytes(body)
	}
	return digest.FromBytes(body)
}

// serveBlob serves a blob. A HEAD request holds the repository's lock, because the client
// may then push an image with the blob (see touch), which must not be deleted in the
// meantime. An open blob remains readable after its deletion.
func (s *Store) serveBlob(w http.ResponseWriter, r *http.Request, repository string, d digest.Digest) {
	if r.Method == http.MethodHead {
		lock := s.lock(repository)
		lock.RLock()
		defer lock.RUnlock()
	}
	s.touch(repository, d)
	if s.layout(repository).isComposed(d) {
		s.serveComposed(w, r, repository, d)
		return
	}
	f, err := os.Open(s.layout(repository).path(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "The blob does not exist")
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

func (s *Store) lock(repository string) *sync.RWMutex {
	made, _ := s.locks.LoadOrStore(repository, &sync.RWMutex{})
	return made.(*sync.RWMutex) //nolint:forcetypeassert // the map holds nothing else
}

// touch records the use of a manifest or a blob in the modification time of its file, so
// that a client which was told that a blob exists can push an image with it. It returns
// false if the file does not exist.
func (s *Store) touch(repository string, d digest.Digest) (exists bool) {
	if d.Validate() != nil {
		return false
	}
	now := time.Now()
	return os.Chtimes(s.layout(repository).path(d), now, now) == nil
}

// repositoryOf returns the repository in a path of the distribution API, or "". It searches
// from the end, because repositories may have names such as "blobs".
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

// request sends a request of the service itself to olareg.
func (s *Store) request(method, path string) (*bufferedResponse, error) {
	a := newResponse()
	r, err := http.NewRequestWithContext(context.Background(), method, path, http.NoBody)
	if err == nil {
		s.registry.ServeHTTP(a, r)
	}
	return a, err
}

// A bufferedResponse is a response that is sent later or only read.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newResponse() *bufferedResponse {
	return &bufferedResponse{header: http.Header{}, status: http.StatusOK}
}

func (a *bufferedResponse) Header() http.Header         { return a.header }
func (a *bufferedResponse) WriteHeader(status int)      { a.status = status }
func (a *bufferedResponse) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *bufferedResponse) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = a.body.WriteTo(w) // an error means that the client has disconnected
}

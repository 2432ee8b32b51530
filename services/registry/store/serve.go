package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
// The library looks without a lock whether a repository is there, and sets that whenever it
// reads index.json again. So what reads index.json is alone in its repository, and
// what only looks is with others that do. Nobody waits there for a client: what it sends is read
// before, and what it is sent is written after.
func (s *Store) serve(w http.ResponseWriter, r *http.Request, g *caller.Grant) {
	repository, d := repositoryOf(r.URL.Path), digestOf(r.URL.Path)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case isUpload(r.URL.Path) && r.Method != http.MethodPost:
		s.registry.ServeHTTP(w, r) // parts of an upload are nobody's yet
	case r.Method == http.MethodPost:
		s.begin(w, r, repository, g)
	case reads && d != "" && strings.Contains(r.URL.Path, "/blobs/"):
		s.serveBlob(w, r, repository, d)
	default:
		s.alone(w, r, repository, g)
	}
}

// alone has a request answered that reads or changes index.json, or that is for the
// library to refuse.
func (s *Store) alone(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.Document))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "The manifest is too large")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := newAnswer()
	door := s.door(repository)
	door.Lock()
	s.touch(repository, digestOf(r.URL.Path))
	if g != nil && s.taken(r, body, g.Build) {
		refuse(answer, http.StatusForbidden, "DENIED", "The name is that of a finished image, which another build has made")
	} else {
		s.registry.ServeHTTP(answer, r)
	}
	s.touch(repository, digest.Digest(answer.header.Get("Docker-Content-Digest")))
	door.Unlock()
	answer.send(w)
}

// begin answers the start of an upload. A blob of another repository that the login may
// read (?mount=…&from=…) is linked, not copied. A body that comes at once (?digest=…) is
// for the next request, as the distribution specification has it.
func (s *Store) begin(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	q := r.URL.Query()
	mount, from := digest.Digest(q.Get("mount")), q.Get("from")
	q.Del("from")
	q.Del("digest")
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	door := s.door(repository)
	if _, err := os.Stat(filepath.Join(string(s.layout(repository)), "index.json")); err == nil {
		door.RLock()
		defer door.RUnlock()
	} else { // the library makes the repository now
		door.Lock()
		defer door.Unlock()
	}
	if g == nil || slices.Contains(g.Reads, from) {
		s.link(mount, from, repository)
	}
	s.touch(repository, mount)
	s.registry.ServeHTTP(w, r) // with ?mount=…, it answers whether the blob is there
}

// link gives a repository a blob of another. Where that fails it is uploaded.
func (s *Store) link(d digest.Digest, from, to string) {
	if d.Validate() != nil || !filepath.IsLocal(from) {
		return
	}
	there, here := s.layout(from).path(d), s.layout(to).path(d)
	if _, err := os.Stat(there); err == nil && os.MkdirAll(filepath.Dir(here), 0o750) == nil {
		_ = os.Link(there, here)
	}
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
func (s *Store) touch(repository string, d digest.Digest) {
	if d.Validate() == nil {
		now := time.Now()
		_ = os.Chtimes(s.layout(repository).path(d), now, now) // it may not be there
	}
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

// isUpload says whether a path is one of an upload under way.
func isUpload(path string) bool { return strings.Contains(path, "/blobs/uploads/") }

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

// Package store is the embedded image store: an OCI registry on local disk, for images
// with nowhere else to go. It says itself who may push and pull there, and removes what
// no name needs any more. Truth: the OCI image layouts below its folder.
package store

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"
	"github.com/olareg/olareg/types"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/upstream"
)

// Store is the handler of /v2/ of the image store. It has a port of its own, on the loopback
// interface; push and pull both want a login: the service's own, or one that a build has (see
// Grant). Clients reach its content through token names only.
type Store struct {
	registry *olareg.Server
	login    upstream.Login
	dir      string
	// key seals the logins of builds.
	key []byte
	// naming is held while a build gives its image a name.
	naming sync.Mutex
	// doors are by repository: the first upload goes in alone, since the library
	// makes the repository then, while others look whether it is there; and so does
	// what removes blobs (see Collect).
	doors sync.Map // of *sync.RWMutex
	// collecting is held by whoever removes what is not needed.
	collecting sync.Mutex
}

// New opens the store below dir, in its folder `images`. The caller closes
// it.
func New(dir string, login upstream.Login) *Store {
	dir = filepath.Join(dir, "images")
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	yes := true
	return &Store{
		dir: dir, key: key,
		registry: olareg.New(config.Config{
			API: config.ConfigAPI{DeleteEnabled: &yes},
			Storage: config.ConfigStorage{
				StoreType: config.StoreDir, RootDir: dir,
				// It knows nothing of names, and waits for pushes while all else waits for
				// it: Collect does it.
				GC: config.ConfigGC{Frequency: -1},
			},
		}),
		login: login,
	}
}

// Close ends it; what it holds is on disk.
func (s *Store) Close() error {
	err := s.registry.Close()
	if each, ok := err.(interface{ Unwrap() []error }); ok {
		// A repository that was asked for and never pushed to is not there.
		return errors.Join(slices.DeleteFunc(slices.Clone(each.Unwrap()), func(err error) bool { return errors.Is(err, types.ErrNotFound) })...)
	}
	return err
}

// ServeHTTP answers the distribution API.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	right := subtle.ConstantTimeCompare([]byte(user), []byte(s.login.Username)) &
		subtle.ConstantTimeCompare([]byte(password), []byte(s.login.Password))
	whole := right == 1 && s.login.Password != ""
	grant, granted := s.granted(user, password)
	if !whole && !granted {
		w.Header().Set("WWW-Authenticate", `Basic realm="image store"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "The image store is the service's own; pull the name that a container request answers")
		return
	}
	if !whole && !allows(grant, r) {
		refuse(w, http.StatusForbidden, "DENIED", "A build's login is good for its own image alone")
		return
	}
	if r.Method == http.MethodDelete && !isUpload(r.URL.Path) {
		w.Header().Set("Allow", "GET, HEAD, PUT")
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "The image store removes images itself, when no name needs them")
		return
	}
	defer s.enter(r)()
	s.touch(r.URL.Path, digestOf(r.URL.Path))
	if whole {
		s.registry.ServeHTTP(w, r)
	} else {
		s.serveGranted(w, r, grant)
	}
	if d := digest.Digest(w.Header().Get("Docker-Content-Digest")); d.Validate() == nil {
		s.touch(r.URL.Path, d)
	}
}

// touch notes the use of a manifest or a blob: the time of its file is when it was
// last asked for. So whoever was told that a blob is there can push an image of it.
func (s *Store) touch(path string, d digest.Digest) {
	if d != "" {
		now := time.Now()
		_ = os.Chtimes(layout(filepath.Join(s.dir, filepath.FromSlash(repositoryOf(path)))).path(d), now, now) // it may not be there
	}
}

func repositoryOf(path string) string {
	name := strings.TrimPrefix(path, "/v2/")
	for _, kind := range []string{"/blobs/", "/manifests/", "/referrers/", "/tags/"} {
		name, _, _ = strings.Cut(name, kind)
	}
	if !filepath.IsLocal(name) {
		return ""
	}
	return name
}

// isUpload says whether a path is one of an upload under way.
func isUpload(path string) bool { return strings.Contains(path, "/blobs/uploads/") }

func (s *Store) door(repository string) *sync.RWMutex {
	made, _ := s.doors.LoadOrStore(repository, &sync.RWMutex{})
	return made.(*sync.RWMutex) //nolint:forcetypeassert // the map holds nothing else
}

// enter returns how to leave again. What takes as long as its body stays outside:
// parts of an upload are nobody's yet, and a blob that is open can be read to its end
// though it is removed.
func (s *Store) enter(r *http.Request) (leave func()) {
	repository := repositoryOf(r.URL.Path)
	begins := r.Method == http.MethodPost
	if !begins && (isUpload(r.URL.Path) || r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")) {
		return func() {}
	}
	door := s.door(repository)
	_, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(repository), "index.json"))
	if begins && err != nil {
		door.Lock()
		return door.Unlock
	}
	door.RLock()
	return door.RUnlock
}

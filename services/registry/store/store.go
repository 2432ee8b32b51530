// Package store is the embedded image store: an OCI registry on local disk, for images
// with nowhere else to go. It says itself who may push and pull there, and removes what
// no name needs any more. Truth: the OCI image layouts below its folder.
package store

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"
	"github.com/olareg/olareg/types"

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
	// doors are by repository: see serve and clear.
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
	if whole {
		s.serve(w, r, nil)
	} else {
		s.serve(w, r, &grant)
	}
}

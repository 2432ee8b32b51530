// Package store is the embedded image store: an OCI registry on local disk, for images
// with nowhere else to go. It says itself who may push and pull there, and removes what
// no name needs any more. Truth: the OCI image layouts below its folder.
package store

import (
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"

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
	log *slog.Logger
	// doors are by repository: see serve and clear.
	doors sync.Map // of *sync.RWMutex
	// writing has the ids of uploads that a request is about.
	writing sync.Map
	// collecting is held by whoever removes what is not needed.
	collecting sync.Mutex
}

// New opens the store below dir, in its folder `images`.
func New(dir string, login upstream.Login, log *slog.Logger) *Store {
	dir = filepath.Join(dir, "images")
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	yes, no := true, false
	return &Store{
		dir: dir, key: key, log: log,
		registry: olareg.New(config.Config{
			API: config.ConfigAPI{DeleteEnabled: &yes},
			Storage: config.ConfigStorage{
				StoreType: config.StoreDir, RootDir: dir,
				// It knows nothing of names, believes what indexes say of others' manifests,
				// and collects when it is closed, too: Collect does it, and it is never closed.
				GC: config.ConfigGC{Frequency: -1, GracePeriod: 100 * 365 * 24 * time.Hour, RepoUploadMax: -1, EmptyRepo: &no},
			},
		}),
		login: login,
	}
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
	if r.Method == http.MethodDelete && !strings.Contains(r.URL.Path, "/blobs/uploads/") {
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

package registry

import (
	"crypto/subtle"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"

	"slipway.dev/services/internal/upstream"
)

// Store is the embedded image store: an OCI registry on local disk, for images
// with nowhere else to go. It has a port of its own, on the loopback interface;
// push and pull both want the service's own login, and clients reach its content
// through token names only.
type Store struct {
	registry *olareg.Server
	login    upstream.Login
	dir      string
	// doors are by repository: the first upload goes in alone, since the library
	// makes the repository then, while others look whether it is there.
	doors sync.Map // of *sync.RWMutex
}

// NewStore opens the store below dir, in its folder `images`. The caller closes
// it.
func NewStore(dir string, login upstream.Login) *Store {
	dir = filepath.Join(dir, "images")
	return &Store{
		dir: dir,
		registry: olareg.New(config.Config{Storage: config.ConfigStorage{
			StoreType: config.StoreDir, RootDir: dir,
		}}),
		login: login,
	}
}

// Close ends it; what it holds is on disk.
func (s *Store) Close() error { return s.registry.Close() }

// ServeHTTP answers the distribution API.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	right := subtle.ConstantTimeCompare([]byte(user), []byte(s.login.Username)) &
		subtle.ConstantTimeCompare([]byte(password), []byte(s.login.Password))
	if right != 1 || s.login.Password == "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="image store"`)
		writeJSON(w, http.StatusUnauthorized, "application/json",
			[]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"The image store is the service's own; pull the name that a container request answers"}]}`))
		return
	}
	defer s.enter(r)()
	s.registry.ServeHTTP(w, r)
}

// enter answers how to leave again.
func (s *Store) enter(r *http.Request) (leave func()) {
	repository, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/")
	repository, _, _ = strings.Cut(repository, "/manifests/")
	made, _ := s.doors.LoadOrStore(repository, &sync.RWMutex{})
	door := made.(*sync.RWMutex) //nolint:forcetypeassert // the map holds nothing else
	_, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(repository), "index.json"))
	if r.Method == http.MethodPost && err != nil {
		door.Lock()
		return door.Unlock
	}
	door.RLock()
	return door.RUnlock
}

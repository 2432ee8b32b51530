package registry

import (
	"crypto/subtle"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"

	"slipway.dev/services/internal/upstream"
)

// StorePath is where the embedded image store lives, below the service's own
// host.
const StorePath = "/v2/store/"

// Store is the embedded image store: an OCI registry on local disk, for images
// with nowhere else to go. Push and pull both want the service's own login;
// clients reach its content through token names only.
type Store struct {
	registry *olareg.Server
	login    upstream.Login
	// beginning is held while an upload begins: the first two of a repository
	// would both make it.
	beginning sync.Mutex
}

// NewStore opens the store below dir, in its folder `images`. The caller closes
// it.
func NewStore(dir string, login upstream.Login) *Store {
	return &Store{
		registry: olareg.New(config.Config{Storage: config.ConfigStorage{
			StoreType: config.StoreDir, RootDir: filepath.Join(dir, "images"),
		}}),
		login: login,
	}
}

// Close ends it; what it holds is on disk.
func (s *Store) Close() error { return s.registry.Close() }

// ServeHTTP answers the distribution API for repositories that start with
// "store/".
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
	if r.Method == http.MethodPost {
		s.beginning.Lock()
		defer s.beginning.Unlock()
	}
	s.registry.ServeHTTP(w, r)
}

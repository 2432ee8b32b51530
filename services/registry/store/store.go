// Package store is the embedded image store: an OCI registry on the local disk, for builds
// without another registry. It authorizes pushes and pulls, and deletes images that are no
// longer needed. Images are stored as OCI image layouts.
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

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// A Store is the handler of /v2/ of the image store. It is served on a port of its own on
// the loopback interface. All requests need a login: that of the service, or that of a
// build (see Grant). Clients reach the content through token names only.
type Store struct {
	registry *olareg.Server
	login    upstream.Login
	dir      string
	// key is the MAC key of the logins of builds.
	key []byte
	log *slog.Logger
	// locks are the locks of repositories; see serve and clear.
	locks sync.Map // of *sync.RWMutex
	// writing contains the IDs of uploads with a running request.
	writing sync.Map
	// collecting is held by Collect.
	collecting sync.Mutex
	// composing contains the owners of compositions that are being verified, verifications contains the
	// verifications by upload ID until the client has the result, and verifying limits their number.
	composing, verifications sync.Map
	verifying                chan struct{}
	// verificationWait is how long a request waits for a verification, and verificationQueue how long a
	// verification waits for others.
	verificationWait, verificationQueue time.Duration
	// broken contains composed blobs (brokenKey) that could not be read.
	broken sync.Map
}

// New returns the store in the folder `images` of dir.
func New(dir string, login upstream.Login, log *slog.Logger) *Store {
	dir = filepath.Join(dir, "images")
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never returns an error
	yes, no := true, false
	return &Store{
		dir: dir, key: key, log: log, verifying: make(chan struct{}, limits.Compositions), verificationWait: limits.CompositionWait, verificationQueue: limits.CompositionQueue,
		registry: olareg.New(config.Config{
			API: config.ConfigAPI{DeleteEnabled: &yes},
			Storage: config.ConfigStorage{
				StoreType: config.StoreDir, RootDir: dir,
				// olareg does not know which images are needed, trusts the types in
				// indexes, and would also collect in Close. Collect replaces its garbage
				// collection, and Close is never called.
				GC: config.ConfigGC{Frequency: -1, GracePeriod: 100 * 365 * 24 * time.Hour, RepoUploadMax: -1, EmptyRepo: &no},
			},
		}),
		login: login,
	}
}

// ServeHTTP implements http.Handler for the distribution API.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	right := subtle.ConstantTimeCompare([]byte(user), []byte(s.login.Username)) &
		subtle.ConstantTimeCompare([]byte(password), []byte(s.login.Password))
	isService := right == 1 && s.login.Password != ""
	grant, granted := s.granted(user, password)
	if !isService && !granted {
		w.Header().Set("WWW-Authenticate", `Basic realm="image store"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "The image store is internal; pull the image name in the response to a container request")
		return
	}
	if !isService && !allows(grant, r) {
		refuse(w, http.StatusForbidden, "DENIED", "A build's login is only valid for its own image")
		return
	}
	if r.Method == http.MethodDelete && !strings.Contains(r.URL.Path, "/blobs/uploads/") {
		w.Header().Set("Allow", "GET, HEAD, PUT")
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "The image store deletes images itself when they are no longer needed")
		return
	}
	if isService {
		s.serve(w, r, nil)
	} else {
		s.serve(w, r, &grant)
	}
}

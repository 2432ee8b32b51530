package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Grant makes the login of one build. Nothing is kept of it: the password says what
// it is good for, sealed with a key that this process has made.
func (s *Store) Grant(g caller.Grant) upstream.Login {
	raw, err := json.Marshal(g)
	if err != nil {
		return upstream.Login{} // it is plain text and a time
	}
	return upstream.Login{
		Username: g.Build,
		Password: base64.RawURLEncoding.EncodeToString(raw) + "." + base64.RawURLEncoding.EncodeToString(s.seal(raw)),
	}
}

func (s *Store) seal(raw []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write(raw)
	return h.Sum(nil)
}

// granted reads what a login is good for; not ok for one that this process has not
// made, or that has ended.
func (s *Store) granted(user, password string) (g caller.Grant, ok bool) {
	text, seal, _ := strings.Cut(password, ".")
	raw, err1 := base64.RawURLEncoding.DecodeString(text)
	mac, err2 := base64.RawURLEncoding.DecodeString(seal)
	if err1 != nil || err2 != nil || !hmac.Equal(mac, s.seal(raw)) || json.Unmarshal(raw, &g) != nil {
		return caller.Grant{}, false
	}
	return g, user == g.Build && time.Now().Before(g.Until)
}

// serveGranted answers a request of a build that its login allows.
func (s *Store) serveGranted(w http.ResponseWriter, r *http.Request, g caller.Grant) {
	if q := r.URL.Query(); q.Has("mount") || q.Has("from") {
		if q.Get("from") != g.Repository { // the registry's other repositories are no business of the build's
			q.Del("mount")
			q.Del("from")
		}
		r = r.Clone(r.Context())
		r.URL.RawQuery = q.Encode()
	}
	if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/manifests/"+g.Tag) {
		s.registry.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.Document))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "The manifest is too large")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.naming.Lock()
	defer s.naming.Unlock()
	if owner := s.buildOf(r, body); owner != "" && owner != g.Build {
		refuse(w, http.StatusForbidden, "DENIED", "The name is that of a finished image, which another build has made")
		return
	}
	s.registry.ServeHTTP(w, r)
}

// allows says whether a request is one that a build needs. Paths are matched from
// end to end: a repository below another has a path that begins alike.
func allows(g caller.Grant, r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		return reads
	}
	if reads && slices.ContainsFunc(g.Reads, func(repository string) bool { return asksByDigest(r.URL.Path, repository) }) {
		return true
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/"+g.Repository+"/")
	kind, name, _ := strings.Cut(rest, "/")
	switch {
	case !ok || g.Repository == "":
		return false
	case kind == "manifests":
		return (reads || r.Method == http.MethodPut) && (name == g.Tag || isDigest(name))
	case kind == "blobs" && isDigest(name):
		return reads
	case kind == "blobs" && (name == "uploads" || name == "uploads/"):
		return r.Method == http.MethodPost
	case kind == "blobs":
		session, ok := strings.CutPrefix(name, "uploads/")
		return ok && session != "" && session != "." && session != ".." && !strings.Contains(session, "/")
	}
	return false
}

// asksByDigest says whether a path is that of a manifest or a blob of a repository: who
// does not know its digest does not get it.
func asksByDigest(path, repository string) bool {
	rest, ok := strings.CutPrefix(path, "/v2/"+repository+"/")
	kind, name, _ := strings.Cut(rest, "/")
	return ok && repository != "" && (kind == "manifests" || kind == "blobs") && isDigest(name)
}

func isDigest(s string) bool { return digest.Digest(s).Validate() == nil }

// buildOf is the build that has made the image whose name a request sets: "" where
// there is no such image, and "unknown" where it does not say, unless it is the very one
// that the request brings: whichever build makes that, it is the same.
func (s *Store) buildOf(r *http.Request, brings []byte) string {
	ask := r.Clone(r.Context())
	ask.Method, ask.Body, ask.ContentLength = http.MethodGet, http.NoBody, 0
	ask.Header = http.Header{"Accept": {ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest}}
	got := &answerOf{header: http.Header{}, status: http.StatusOK}
	s.registry.ServeHTTP(got, ask)
	if got.status == http.StatusNotFound {
		return ""
	}
	if id := oci.Annotations(oci.NewDocument(got.header.Get("Content-Type"), got.body.Bytes()))["dev.slipway.build-id"]; id != "" {
		return id
	}
	if bytes.Equal(got.body.Bytes(), brings) {
		return ""
	}
	return "unknown"
}

// answerOf keeps an answer.
type answerOf struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerOf) Header() http.Header         { return a.header }
func (a *answerOf) WriteHeader(status int)      { a.status = status }
func (a *answerOf) Write(p []byte) (int, error) { return a.body.Write(p) }

// refuse answers with an error of the distribution specification; why is plain text.
func refuse(w http.ResponseWriter, status int, code, why string) {
	body := `{"errors":[{"code":"` + code + `","message":"` + why + `"}]}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone; nobody is left to tell
}

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

	"slipway.dev/services/internal/caller"
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

// allows says whether a request is one that a build needs. Paths are matched from
// end to end: a repository below another has a path that begins alike. A manifest may come
// with tags in its query, which are for nobody here.
func allows(g caller.Grant, r *http.Request) bool {
	if r.URL.Query().Has("tag") {
		return false
	}
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

// taken says whether a push would take a name away from another build's image.
func (s *Store) taken(r *http.Request, brings []byte, build string) bool {
	if r.Method != http.MethodPut || digestOf(r.URL.Path) != "" {
		return false
	}
	owner := s.buildOf(r, brings)
	return owner != "" && owner != build
}

// buildOf is the build that has made the image whose name a request sets: "" where
// there is no such image, and "unknown" where it does not say, unless it is the very one
// that the request brings: whichever build makes that, it is the same.
func (s *Store) buildOf(r *http.Request, brings []byte) string {
	ask := r.Clone(r.Context())
	ask.Method, ask.Body, ask.ContentLength = http.MethodGet, http.NoBody, 0
	ask.Header = http.Header{} // whatever type it has
	got := newAnswer()
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

// refuse answers with an error of the distribution specification; why is plain text.
func refuse(w http.ResponseWriter, status int, code, why string) {
	body := `{"errors":[{"code":"` + code + `","message":"` + why + `"}]}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone; nobody is left to tell
}

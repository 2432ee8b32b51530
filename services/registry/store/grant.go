package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Grant returns the login of one build. It is not stored: the password contains the grant
// and its MAC, with a key that this process created.
func (s *Store) Grant(g caller.Grant) upstream.Login {
	raw, err := json.Marshal(g)
	if err != nil {
		return upstream.Login{} // a Grant can always be encoded
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

// granted returns the grant of a login. ok is false if it was not issued by this process or
// has expired.
func (s *Store) granted(user, password string) (g caller.Grant, ok bool) {
	text, seal, _ := strings.Cut(password, ".")
	raw, err1 := base64.RawURLEncoding.DecodeString(text)
	mac, err2 := base64.RawURLEncoding.DecodeString(seal)
	if err1 != nil || err2 != nil || !hmac.Equal(mac, s.seal(raw)) || json.Unmarshal(raw, &g) != nil {
		return caller.Grant{}, false
	}
	return g, user == g.Build && time.Now().Before(g.Until)
}

// allows reports whether a grant permits a request. Paths must match completely, because
// the path of a nested repository has the same prefix. Tags in the query of a manifest
// upload are not permitted.
func allows(g caller.Grant, r *http.Request) bool {
	if r.URL.Query().Has("tag") {
		return false
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		return reads
	}
	if reads && slices.ContainsFunc(g.Reads, func(repository string) bool { return isByDigest(r.URL.Path, repository) }) {
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

// isByDigest reports whether a path is that of a manifest or a blob of a repository by
// digest. Only clients that know the digest may read it.
func isByDigest(path, repository string) bool {
	rest, ok := strings.CutPrefix(path, "/v2/"+repository+"/")
	kind, name, _ := strings.Cut(rest, "/")
	return ok && repository != "" && (kind == "manifests" || kind == "blobs") && isDigest(name)
}

func isDigest(s string) bool { return digest.Digest(s).Validate() == nil }

// isTagTaken reports whether a push would replace the image of another build under its tag.
func (s *Store) isTagTaken(r *http.Request, brings []byte, build string) bool {
	if r.Method != http.MethodPut || digestOf(r.URL.Path) != "" {
		return false
	}
	owner := s.buildOf(r, brings)
	return owner != "" && owner != build
}

// buildOf returns the build that created the image with the tag of a request. It returns ""
// if there is no such image or its content is equal to brings, and "unknown" if the image
// does not name its build.
func (s *Store) buildOf(r *http.Request, brings []byte) string {
	ask := r.Clone(r.Context())
	ask.Method, ask.Body, ask.ContentLength = http.MethodGet, http.NoBody, 0
	ask.Header = http.Header{} // accept all media types
	got := newResponse()
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

// refuse responds with an error of the distribution specification.
func refuse(w http.ResponseWriter, status int, code, why string) {
	oci.WriteError(w, status, code, why, true)
}

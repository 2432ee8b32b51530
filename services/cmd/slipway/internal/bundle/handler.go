package bundle

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A handler is a read-only registry with the images of a bundle, according to the OCI distribution
// specification. It serves the manifests that the indexes of the bundle reach, and the blobs that
// these refer to. It is safe for concurrent use.
type handler struct {
	*content
	repos map[string]*repository
}

func newHandler(c *content) *handler {
	repos, _ := c.repositories()
	return &handler{c, repos}
}

// route matches the paths of the specification: the repository, the kind, and the reference.
var route = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v2/([a-z0-9._/-]+)/(manifests|blobs|tags|referrers)/([A-Za-z0-9_][A-Za-z0-9._:+-]{0,200})$`)
})

// ServeHTTP implements the endpoints for pulls.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "the bundle is read-only")
		return
	}
	switch r.URL.Path {
	case "/v2", "/v2/":
		reply(w, "application/json", []byte("{}"))
		return
	case "/v2/_catalog":
		h.catalog(w)
		return
	}
	parts := route().FindStringSubmatch(r.URL.Path)
	if parts == nil {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "the path is not one of a registry")
		return
	}
	repo := h.repository(parts[1])
	if repo == nil {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "the bundle has no image with this name; slipway bundle list shows its images")
		return
	}
	switch parts[2] {
	case "manifests":
		h.manifest(w, repo, parts[3])
	case "blobs":
		h.blob(w, r, digest.Digest(parts[3]))
	case "referrers":
		h.referrersOf(w, digest.Digest(parts[3]), r.URL.Query().Get("artifactType"))
	case "tags":
		h.tags(w, r, repo, parts[1], parts[3])
	}
}

// repository returns the repository of a path, or nil. A path may begin with a token
// of a server of Slipway, so that names that it issued remain valid.
func (h *handler) repository(path string) *repository {
	if r := h.repos[path]; r != nil {
		return r
	}
	return h.repos[token().ReplaceAllString(path, "")]
}

func (h *handler) manifest(w http.ResponseWriter, repo *repository, reference string) {
	d, ok := repo.tags[reference]
	if !ok {
		d = digest.Digest(reference)
	}
	m, ok := h.manifests[d]
	if !ok {
		fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "the bundle has no such tag or digest")
		return
	}
	raw, err := h.document(m.Descriptor)
	if err != nil {
		damaged(w, err)
		return
	}
	w.Header().Set("Docker-Content-Digest", d.String())
	w.Header().Set("ETag", `"`+d.String()+`"`)
	reply(w, m.MediaType, raw)
}

func (h *handler) blob(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	b, ok := h.blobs[d]
	if !ok {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "no image of the bundle has this blob")
		return
	}
	f, err := h.open(b)
	if err != nil {
		damaged(w, err)
		return
	}
	defer f.Close()
	w.Header().Set("Docker-Content-Digest", d.String())
	w.Header().Set("ETag", `"`+d.String()+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
}

func (h *handler) referrersOf(w http.ResponseWriter, d digest.Digest, artifactType string) {
	if _, err := blobPath(d); err != nil {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", "the digest is not valid")
		return
	}
	out := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for _, m := range h.referrers[d] {
		if artifactType == "" || m.ArtifactType == artifactType {
			out.Manifests = append(out.Manifests, m.Descriptor)
		}
	}
	if artifactType != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	replyJSON(w, ocispec.MediaTypeImageIndex, out)
}

func (h *handler) tags(w http.ResponseWriter, r *http.Request, repo *repository, path, what string) {
	if what != "list" {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "the path is not one of a registry")
		return
	}
	limit := len(repo.tags)
	if text := r.URL.Query().Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			fail(w, http.StatusBadRequest, "PAGINATION_NUMBER_INVALID", "n must be a number")
			return
		}
		limit = min(limit, n)
	}
	last := r.URL.Query().Get("last")
	list := repo.sortedTags(last, limit)
	if len(list) > 0 && len(list) < len(repo.sortedTags(last, len(repo.tags))) {
		next := url.URL{Path: "/v2/" + path + "/tags/list", RawQuery: url.Values{"n": {strconv.Itoa(limit)}, "last": {list[len(list)-1]}}.Encode()}
		w.Header().Set("Link", "<"+next.String()+`>; rel="next"`)
	}
	replyJSON(w, "application/json", map[string]any{"name": path, "tags": append([]string{}, list...)})
}

func (h *handler) catalog(w http.ResponseWriter) {
	paths := make([]string, 0, len(h.repos))
	for path := range h.repos {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	replyJSON(w, "application/json", map[string]any{"repositories": paths})
}

// damaged responds to a request for a blob that cannot be read.
func damaged(w http.ResponseWriter, err error) {
	if errors.Is(err, errNoBlob) {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "the blob is missing in the bundle")
		return
	}
	fail(w, http.StatusInternalServerError, "UNKNOWN", "the bundle is damaged; slipway bundle list --verify shows how")
}

func fail(w http.ResponseWriter, status int, code, message string) {
	raw, _ := json.Marshal(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}}) // strings always encode
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

func replyJSON(w http.ResponseWriter, mediaType string, what any) {
	raw, err := json.Marshal(what)
	if err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", "the response cannot be encoded")
		return
	}
	reply(w, mediaType, raw)
}

// reply sends a document. The server omits the body of a response to HEAD.
func reply(w http.ResponseWriter, mediaType string, raw []byte) {
	w.Header().Set("Content-Type", strings.TrimSpace(mediaType))
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_, _ = w.Write(raw)
}

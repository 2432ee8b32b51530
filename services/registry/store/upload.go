package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// An upload is a file in its repository, with the upload's ID as its name. There is no
// other state, so that uploads survive a restart. Abandoned uploads are deleted like blobs
// without an image (see Retention.Unnamed). olareg is not used for uploads, because it
// would hold all of them in memory, and one login could block all others.

// uploads is the name of the folder with unfinished uploads.
const uploads = "_uploads"

// uploadID matches upload IDs: a random string and the owner (see ownerOf).
var uploadID = regexp.MustCompile(`^[A-Z2-7]{26}-[0-9a-f]{16}$`)

// ownerOf returns the suffix of upload IDs that belong to a build, or to the service if g
// is nil.
func ownerOf(g *caller.Grant) string {
	build := ""
	if g != nil {
		build = g.Build
	}
	sum := sha256.Sum256([]byte(build))
	return "-" + hex.EncodeToString(sum[:8])
}

// begin starts an upload. A blob of another repository that the login may read
// (?mount=…&from=…) is linked instead of copied. A body in the same request (?digest=…) is
// ignored, which the distribution specification permits: the client sends it with the next
// request.
func (s *Store) begin(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	if refused := s.prepare(repository); refused != nil {
		refused.send(w)
		return
	}
	lock := s.lock(repository)
	lock.RLock()
	defer lock.RUnlock()
	q := r.URL.Query()
	if mount, from := q.Get("mount"), q.Get("from"); mount != "" {
		d := digest.Digest(mount)
		if d.Validate() != nil {
			refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "The digest to mount is malformed")
			return
		}
		if g == nil || slices.Contains(g.Reads, from) {
			s.link(d, from, repository)
		}
		if s.touch(repository, d) && s.isReadable(r.Context(), repository, d) {
			created(w, repository, d)
			return
		}
	}
	id, err := s.newUpload(repository, g)
	switch {
	case errors.Is(err, errUploads):
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "The build has too many unfinished uploads; complete some first")
	case err != nil:
		s.respondDiskError(w, r, err)
	default:
		accepted(w, http.StatusAccepted, repository, id, 0)
	}
}

// prepare creates the repository through olareg if it does not exist. It returns nil, or
// the response with an error.
func (s *Store) prepare(repository string) *bufferedResponse {
	index := filepath.Join(string(s.layout(repository)), "index.json")
	if _, err := os.Stat(index); err == nil {
		return nil
	}
	lock := s.lock(repository)
	lock.Lock()
	defer lock.Unlock()
	if _, err := os.Stat(index); err == nil {
		return nil
	}
	// olareg creates a repository for an upload, which is cancelled immediately.
	first, err := s.request(http.MethodPost, "/v2/"+repository+"/blobs/uploads/")
	if err == nil && first.status == http.StatusAccepted {
		_, err = s.request(http.MethodDelete, first.header.Get("Location"))
	}
	switch {
	case err != nil:
		refuse(first, http.StatusBadRequest, "NAME_INVALID", "The repository name is invalid")
		return first
	case first.status != http.StatusAccepted:
		return first
	}
	return nil
}

// link links a blob of one repository into another. If that fails, the client uploads the
// blob.
func (s *Store) link(d digest.Digest, from, to string) {
	if !filepath.IsLocal(from) {
		return
	}
	there, here := s.layout(from), s.layout(to)
	if there.isComposed(d) {
		_ = here.linkComposed(there, d)
		return
	}
	if _, err := os.Stat(there.path(d)); err == nil {
		_ = hardLink(there.path(d), here.path(d))
	}
}

var errUploads = errors.New("too many uploads")

func (s *Store) newUpload(repository string, g *caller.Grant) (id string, err error) {
	folder := filepath.Join(string(s.layout(repository)), uploads)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	owner := ownerOf(g)
	if g != nil {
		open, err := os.ReadDir(folder)
		if err != nil {
			return "", err
		}
		open = slices.DeleteFunc(open, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), owner) })
		if len(open) >= limits.Uploads {
			return "", errUploads
		}
	}
	id = rand.Text() + owner
	return id, os.WriteFile(filepath.Join(folder, id), nil, 0o600)
}

// uploadPath returns the path of an unfinished upload.
func (s *Store) uploadPath(repository, id string) string {
	return filepath.Join(string(s.layout(repository)), uploads, id)
}

// serveUpload handles a request for an upload. A slow body delays only its own client.
func (s *Store) serveUpload(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	_, id, _ := strings.Cut(r.URL.Path, "/blobs/uploads/")
	if !uploadID.MatchString(id) || g != nil && !strings.HasSuffix(id, ownerOf(g)) {
		refuse(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "There is no such upload; start another")
		return
	}
	if _, busy := s.writing.LoadOrStore(id, true); busy {
		refuse(w, http.StatusConflict, "BLOB_UPLOAD_INVALID", "Another request writes this upload")
		return
	}
	defer s.writing.Delete(id)
	if found, ok := s.verifications.Load(id); ok {
		if v, ok := found.(*verification); ok && v.repository == repository && r.Method == http.MethodPut {
			s.awaitVerification(w, r, id, s.uploadPath(repository, id), v)
			return
		}
		refuse(w, http.StatusConflict, "BLOB_UPLOAD_INVALID", "The upload is being verified") // its content must not change
		return
	}
	f, err := os.OpenFile(s.uploadPath(repository, id), os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		refuse(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "There is no such upload; start another")
		return
	}
	if err != nil {
		s.respondDiskError(w, r, err)
		return
	}
	defer func() { _ = f.Close() }()
	u := &upload{Store: s, File: f, repository: repository, id: id, body: steadyBody{in: r.Body, connection: http.NewResponseController(w)}}
	if info, err := f.Stat(); err == nil {
		u.size = info.Size()
	}
	switch r.Method {
	case http.MethodGet:
		accepted(w, http.StatusNoContent, repository, id, u.size)
	case http.MethodPatch:
		u.patch(w, r)
	case http.MethodPut:
		u.put(w, r)
	case http.MethodDelete:
		if err := os.Remove(f.Name()); err != nil {
			s.respondDiskError(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, PATCH, PUT, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "An upload supports GET, PATCH, PUT and DELETE")
	}
}

// An upload is an unfinished blob during a request.
type upload struct {
	*Store
	*os.File
	repository, id string
	size           int64
	body           steadyBody
}

// patch appends the body of a request.
func (u *upload) patch(w http.ResponseWriter, r *http.Request) {
	if !u.follows(r) {
		w.Header().Set("Range", rangeOf(u.size))
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "The Content-Range does not continue the upload")
		return
	}
	n, err := io.Copy(u.File, &u.body)
	if err != nil {
		u.failed(w, r, err)
		return
	}
	accepted(w, http.StatusAccepted, u.repository, u.id, u.size+n)
}

// put appends the body of a request and completes the upload.
func (u *upload) put(w http.ResponseWriter, r *http.Request) {
	d := digest.Digest(r.URL.Query().Get("digest"))
	if d.Validate() != nil {
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "The blob's digest is missing or malformed")
		return
	}
	if !u.follows(r) {
		w.Header().Set("Range", rangeOf(u.size))
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "The Content-Range does not continue the upload")
		return
	}
	if r.URL.Query().Get("mediaType") == oci.TypeComposition {
		u.compose(w, r, d)
		return
	}
	sum := d.Algorithm().Hash()
	if err := u.fill(sum); err != nil {
		u.failed(w, r, err)
		return
	}
	if digest.NewDigest(d.Algorithm(), sum) != d {
		_ = os.Remove(u.Name())
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "The blob does not have this digest")
		return
	}
	if err := u.commit(d); err != nil {
		u.respondDiskError(w, r, err)
		return
	}
	created(w, u.repository, d)
}

// fill hashes the existing content, and then appends and hashes the body.
func (u *upload) fill(sum hash.Hash) error {
	if _, err := io.Copy(sum, io.NewSectionReader(u.File, 0, u.size)); err != nil {
		return err
	}
	_, err := io.Copy(io.MultiWriter(u.File, sum), &u.body)
	return err
}

// failed responds to an interrupted upload. The content received so far is retained, and
// the client may continue from there.
func (u *upload) failed(w http.ResponseWriter, r *http.Request, err error) {
	if u.body.err == nil {
		u.respondDiskError(w, r, err)
		return
	}
	refuse(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "The body was interrupted or stalled; query the status of the upload and continue from there")
}

// commit converts the upload to a blob. It holds the lock, so that an older blob with the
// same digest is not deleted in the meantime.
func (u *upload) commit(d digest.Digest) error {
	lock := u.lock(u.repository)
	lock.RLock()
	defer lock.RUnlock()
	to := u.layout(u.repository).path(d)
	err := os.MkdirAll(filepath.Dir(to), 0o750)
	if err == nil {
		err = os.Rename(u.Name(), to)
	}
	u.touch(u.repository, d)
	return err
}

// follows reports whether the Content-Range of a request, if any, starts at the end of the
// upload.
func (u *upload) follows(r *http.Request) bool {
	contentRange := r.Header.Get("Content-Range")
	if contentRange == "" {
		return true
	}
	first, _, ok := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return ok && err == nil && n == u.size
}

// rangeOf returns the Range header of an upload with the given size.
func rangeOf(size int64) string { return fmt.Sprintf("0-%d", max(size-1, 0)) }

// A steadyBody is a request body without a time limit, as long as data arrives.
type steadyBody struct {
	in         io.Reader
	connection *http.ResponseController
	err        error // error that interrupted the body, or nil
}

// Read implements io.Reader.
func (b *steadyBody) Read(p []byte) (int, error) {
	_ = b.connection.SetReadDeadline(time.Now().Add(limits.UploadStall)) // not supported in tests without a connection
	n, err := b.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// accepted responds with the location and size of an unfinished upload.
func accepted(w http.ResponseWriter, status int, repository, id string, size int64) {
	w.Header().Set("Location", "/v2/"+repository+"/blobs/uploads/"+id)
	w.Header().Set("Range", rangeOf(size))
	w.Header().Set("Docker-Upload-UUID", id)
	w.WriteHeader(status)
}

// created responds that a blob exists.
func created(w http.ResponseWriter, repository string, d digest.Digest) {
	w.Header().Set("Location", "/v2/"+repository+"/blobs/"+d.String())
	w.Header().Set("Docker-Content-Digest", d.String())
	w.WriteHeader(http.StatusCreated)
}

// respondDiskError responds to and logs an error of the disk.
func (s *Store) respondDiskError(w http.ResponseWriter, r *http.Request, err error) {
	s.log.ErrorContext(r.Context(), "The image store cannot write", "err", err)
	refuse(w, http.StatusInternalServerError, "UNKNOWN", "The image store cannot write this now")
}

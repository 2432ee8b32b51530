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
)

// An upload is a blob on its way: a file in its repository, whose name is the upload's
// id. Nothing else is kept of it, so that it outlives the process, and what nobody goes on with is
// removed like a blob without an image (see Keep.Unnamed). The library would hold each open in
// memory, and lets one login stop all others.

// uploads is the folder of what is being pushed.
const uploads = "_uploads"

// uploadID is a random text, and whose login it is for.
var uploadID = regexp.MustCompile(`^[A-Z2-7]{26}-[0-9a-f]{16}$`)

// ownerOf is how an upload's id says whose it is; nil is the service.
func ownerOf(g *caller.Grant) string {
	build := ""
	if g != nil {
		build = g.Build
	}
	sum := sha256.Sum256([]byte(build))
	return "-" + hex.EncodeToString(sum[:8])
}

// begin answers the start of an upload. A blob of another repository that the login may
// read (?mount=…&from=…) is linked, not copied. A body that comes at once (?digest=…) is
// for the next request, as the distribution specification has it.
func (s *Store) begin(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	if refused := s.prepare(repository); refused != nil {
		refused.send(w)
		return
	}
	door := s.door(repository)
	door.RLock()
	defer door.RUnlock()
	q := r.URL.Query()
	if mount, from := q.Get("mount"), q.Get("from"); mount != "" {
		d := digest.Digest(mount)
		if d.Validate() != nil {
			refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "What is to be mounted is no digest")
			return
		}
		if g == nil || slices.Contains(g.Reads, from) {
			s.link(d, from, repository)
		}
		if s.touch(repository, d) {
			created(w, repository, d)
			return
		}
	}
	id, err := s.newUpload(repository, g)
	switch {
	case errors.Is(err, errUploads):
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "The build has begun too many uploads; end some first")
	case err != nil:
		s.broken(w, r, err)
	default:
		accepted(w, http.StatusAccepted, repository, id, 0)
	}
}

// prepare has the library make a repository that is not there; not nil is why it does not.
func (s *Store) prepare(repository string) *answer {
	index := filepath.Join(string(s.layout(repository)), "index.json")
	if _, err := os.Stat(index); err == nil {
		return nil
	}
	door := s.door(repository)
	door.Lock()
	defer door.Unlock()
	if _, err := os.Stat(index); err == nil {
		return nil
	}
	// It makes one for an upload, which ends at once.
	first, err := s.ask(http.MethodPost, "/v2/"+repository+"/blobs/uploads/")
	if err == nil && first.status == http.StatusAccepted {
		_, err = s.ask(http.MethodDelete, first.header.Get("Location"))
	}
	switch {
	case err != nil:
		refuse(first, http.StatusBadRequest, "NAME_INVALID", "This is no name of a repository")
		return first
	case first.status != http.StatusAccepted:
		return first
	}
	return nil
}

// link gives a repository a blob of another. Where that fails it is uploaded.
func (s *Store) link(d digest.Digest, from, to string) {
	if !filepath.IsLocal(from) {
		return
	}
	there, here := s.layout(from).path(d), s.layout(to).path(d)
	if _, err := os.Stat(there); err == nil && os.MkdirAll(filepath.Dir(here), 0o750) == nil {
		_ = os.Link(there, here)
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

// serveUpload answers what is asked of an upload: nobody waits for its body but who sends it.
func (s *Store) serveUpload(w http.ResponseWriter, r *http.Request, repository string, g *caller.Grant) {
	_, id, _ := strings.Cut(r.URL.Path, "/blobs/uploads/")
	if !uploadID.MatchString(id) || g != nil && !strings.HasSuffix(id, ownerOf(g)) {
		refuse(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "There is no such upload; begin another")
		return
	}
	if _, busy := s.writing.LoadOrStore(id, true); busy {
		refuse(w, http.StatusConflict, "BLOB_UPLOAD_INVALID", "Another request writes this upload")
		return
	}
	defer s.writing.Delete(id)
	f, err := os.OpenFile(filepath.Join(string(s.layout(repository)), uploads, id), os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		refuse(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "There is no such upload; begin another")
		return
	}
	if err != nil {
		s.broken(w, r, err)
		return
	}
	defer func() { _ = f.Close() }()
	u := &upload{Store: s, File: f, repository: repository, id: id, body: steady{in: r.Body, connection: http.NewResponseController(w)}}
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
			s.broken(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, PATCH, PUT, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "An upload is gone on with, ended or given up")
	}
}

// upload is one while a request is about it.
type upload struct {
	*Store
	*os.File
	repository, id string
	size           int64
	body           steady
}

// patch adds what a request brings.
func (u *upload) patch(w http.ResponseWriter, r *http.Request) {
	if !u.follows(r) {
		w.Header().Set("Range", rangeOf(u.size))
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "What is sent does not follow what is there")
		return
	}
	n, err := io.Copy(u.File, &u.body)
	if err != nil {
		u.failed(w, r, err)
		return
	}
	accepted(w, http.StatusAccepted, u.repository, u.id, u.size+n)
}

// put adds what a request brings, and ends the upload.
func (u *upload) put(w http.ResponseWriter, r *http.Request) {
	d := digest.Digest(r.URL.Query().Get("digest"))
	if d.Validate() != nil {
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "The blob's digest is missing or malformed")
		return
	}
	if !u.follows(r) {
		w.Header().Set("Range", rangeOf(u.size))
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "What is sent does not follow what is there")
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
	if err := u.keep(d); err != nil {
		u.broken(w, r, err)
		return
	}
	created(w, u.repository, d)
}

// fill hashes what is there, and then what comes, as it is written.
func (u *upload) fill(sum hash.Hash) error {
	if _, err := io.Copy(sum, io.NewSectionReader(u.File, 0, u.size)); err != nil {
		return err
	}
	_, err := io.Copy(io.MultiWriter(u.File, sum), &u.body)
	return err
}

// failed answers an upload that did not come to its end. What came is there, to be gone on
// from.
func (u *upload) failed(w http.ResponseWriter, r *http.Request, err error) {
	if u.body.err == nil {
		u.broken(w, r, err)
		return
	}
	refuse(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "The body broke off, or nothing came of it for too long; ask how far the upload is, and go on from there")
}

// keep makes it a blob, while nothing is removed that has the same digest and is old.
func (u *upload) keep(d digest.Digest) error {
	door := u.door(u.repository)
	door.RLock()
	defer door.RUnlock()
	to := u.layout(u.repository).path(d)
	err := os.MkdirAll(filepath.Dir(to), 0o750)
	if err == nil {
		err = os.Rename(u.Name(), to)
	}
	u.touch(u.repository, d)
	return err
}

// follows says whether a request brings what comes next, as far as it says.
func (u *upload) follows(r *http.Request) bool {
	said := r.Header.Get("Content-Range")
	if said == "" {
		return true
	}
	first, _, ok := strings.Cut(strings.TrimPrefix(said, "bytes "), "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return ok && err == nil && n == u.size
}

// rangeOf is what of an upload is there, as the distribution specification writes it.
func rangeOf(size int64) string { return fmt.Sprintf("0-%d", max(size-1, 0)) }

// steady is a body that may take as long as it takes, while some of it comes.
type steady struct {
	in         io.Reader
	connection *http.ResponseController
	err        error // why it ended early; nil where it did not
}

// Read implements io.Reader.
func (b *steady) Read(p []byte) (int, error) {
	_ = b.connection.SetReadDeadline(time.Now().Add(limits.UploadStall)) // what is not a connection does not stall
	n, err := b.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// accepted says where an upload goes on.
func accepted(w http.ResponseWriter, status int, repository, id string, size int64) {
	w.Header().Set("Location", "/v2/"+repository+"/blobs/uploads/"+id)
	w.Header().Set("Range", rangeOf(size))
	w.Header().Set("Docker-Upload-UUID", id)
	w.WriteHeader(status)
}

// created says that a blob is there.
func created(w http.ResponseWriter, repository string, d digest.Digest) {
	w.Header().Set("Location", "/v2/"+repository+"/blobs/"+d.String())
	w.Header().Set("Docker-Content-Digest", d.String())
	w.WriteHeader(http.StatusCreated)
}

// broken answers what is nobody's fault but the disk's.
func (s *Store) broken(w http.ResponseWriter, r *http.Request, err error) {
	s.log.ErrorContext(r.Context(), "The image store cannot write", "err", err)
	refuse(w, http.StatusInternalServerError, "UNKNOWN", "The image store cannot write this now")
}

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// A composed blob is stored as the list of its pieces (oci.Composition), which are ranges of ordinary
// blobs of the same repository. The list is a file in the folder _composed of the repository. At the
// path of the blob there is a symbolic link to it, which distinguishes the list from a blob with the
// same content, and lets olareg find the blob. The modification time of the list is the time of the
// blob's last use.

// compositions is the name of the folder with the lists of pieces.
const compositions = "_composed"

// listPath returns the path of the list of pieces of a composed blob.
func (l layout) listPath(d digest.Digest) string {
	return filepath.Join(string(l), compositions, d.Algorithm().String(), d.Encoded())
}

// linkTo returns the target of the link at the path of a composed blob.
func linkTo(d digest.Digest) string {
	return filepath.Join("..", "..", compositions, d.Algorithm().String(), d.Encoded())
}

// isComposed reports whether a blob is stored as a list of pieces.
func (l layout) isComposed(d digest.Digest) bool {
	info, err := os.Lstat(l.path(d))
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// composition returns the list of pieces of a composed blob.
func (l layout) composition(d digest.Digest) (oci.Composition, error) {
	f, err := os.OpenFile(l.listPath(d), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return oci.Composition{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limits.Composition+1))
	if err != nil {
		return oci.Composition{}, err
	}
	return oci.ParseComposition(raw)
}

// errPart is returned for a composition that uses a blob which is missing, shorter, or composed itself.
var errPart = errors.New("a part is missing")

// checkParts returns errPart unless the repository has all parts.
func (l layout) checkParts(c oci.Composition) error {
	for part, end := range c.Blobs() {
		info, err := os.Lstat(l.path(part))
		if err != nil || !info.Mode().IsRegular() || info.Size() < end {
			return fmt.Errorf("%w: %s", errPart, part)
		}
	}
	return nil
}

// linkComposed makes a composed blob of another repository available in this one.
func (l layout) linkComposed(from layout, d digest.Digest) error {
	c, err := from.composition(d)
	if err != nil {
		return err
	}
	for part := range c.Blobs() {
		if err := hardLink(from.path(part), l.path(part)); err != nil {
			return err
		}
	}
	if err := hardLink(from.listPath(d), l.listPath(d)); err != nil {
		return err
	}
	return l.showComposed(d)
}

// hardLink links a file, unless the new name exists.
func hardLink(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	if err := os.Link(from, to); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// showComposed makes the list of pieces available as a blob, unless the blob exists as a file.
func (l layout) showComposed(d digest.Digest) error {
	if err := os.MkdirAll(filepath.Dir(l.path(d)), 0o750); err != nil {
		return err
	}
	if err := os.Symlink(linkTo(d), l.path(d)); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// LinkCompositions makes the lists of pieces of a store that was copied without symbolic links
// available as blobs. The argument dir is the folder of a repository (see Repositories).
func LinkCompositions(dir string) error {
	l := layout(dir)
	for d := range l.lists() {
		if err := l.showComposed(d); err != nil {
			return err
		}
	}
	return nil
}

// lists returns the composed blobs that have a list of pieces, with the path of the list relative to the
// layout.
func (l layout) lists() map[digest.Digest]string {
	files, _ := filepath.Glob(filepath.Join(string(l), compositions, "*", "*")) // the pattern is valid
	out := map[digest.Digest]string{}
	for _, f := range files {
		d := digest.NewDigestFromEncoded(digest.Algorithm(filepath.Base(filepath.Dir(f))), filepath.Base(f))
		if d.Validate() == nil {
			out[d] = filepath.Join(compositions, d.Algorithm().String(), d.Encoded())
		}
	}
	return out
}

// Compositions returns the paths of the lists of pieces of all composed blobs, relative to dir, which is
// the folder of a repository (see Repositories).
func Compositions(dir string) []string {
	var out []string
	for _, path := range layout(dir).lists() {
		out = append(out, path)
	}
	return out
}

// A verification is a composition that is being verified. It continues if the client disconnects.
type verification struct {
	repository string
	digest     digest.Digest
	// done is closed at the end. Then why is the reason why the composition is rejected, or err the error
	// of the disk.
	done chan struct{}
	why  string
	err  error
}

// compose completes an upload whose content is a composition. It reads the whole blob, and stores the
// composition if the blob has the digest. A build may only compose blobs of its own repository, whose
// content it may read.
func (u *upload) compose(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	c, why, err := u.readComposition()
	if why == "" && err == nil {
		why = u.useParts(c)
	}
	if why != "" || err != nil {
		u.rejectComposition(w, r, u.Name(), why, err)
		return
	}
	_, owner, _ := strings.Cut(u.id, "-")
	if _, busy := u.composing.LoadOrStore(owner, true); busy {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "The build composes another blob")
		return
	}
	v := &verification{repository: u.repository, digest: d, done: make(chan struct{})}
	u.verifications.Store(u.id, v)
	id, name, ctx := u.id, u.Name(), context.WithoutCancel(r.Context())
	go func(s *Store) {
		v.why, v.err = s.composed(ctx, v, c, name)
		s.composing.Delete(owner)
		close(v.done)
		time.AfterFunc(limits.UploadStall, func() { s.verifications.Delete(id) })
	}(u.Store)
	u.awaitVerification(w, r, id, name, v)
}

// awaitVerification responds with the result of a verification. If it takes long, it responds with the
// status 202, and the client repeats its request.
func (s *Store) awaitVerification(w http.ResponseWriter, r *http.Request, id, name string, v *verification) {
	if r.URL.Query().Get("digest") != v.digest.String() {
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "The upload is verified for another digest")
		return
	}
	wait := time.NewTimer(s.verificationWait)
	defer wait.Stop()
	select {
	case <-v.done:
	case <-r.Context().Done():
		return
	case <-wait.C:
		w.Header().Set("Retry-After", "1")
		accepted(w, http.StatusAccepted, v.repository, id, 0)
		return
	}
	s.verifications.Delete(id)
	if v.why != "" || v.err != nil {
		s.rejectComposition(w, r, name, v.why, v.err)
		return
	}
	created(w, v.repository, v.digest)
}

// rejectComposition responds to a composition that is not stored, and deletes its upload.
func (s *Store) rejectComposition(w http.ResponseWriter, r *http.Request, name, why string, err error) {
	_ = os.Remove(name)
	if why != "" {
		refuse(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", why)
		return
	}
	s.respondDiskError(w, r, err)
}

// readComposition reads the content of the upload. It returns the reason why it is rejected, or the error
// of the disk.
func (u *upload) readComposition() (c oci.Composition, why string, err error) {
	if _, err := io.Copy(u.File, io.LimitReader(&u.body, limits.Composition+1)); err != nil {
		return c, "The body was interrupted", nil //nolint:nilerr // the client's
	}
	raw, err := io.ReadAll(io.NewSectionReader(u.File, 0, limits.Composition+1))
	if err != nil {
		return c, "", err
	}
	if c, err = oci.ParseComposition(raw); err != nil {
		return c, "The composition is invalid: " + err.Error(), nil //nolint:nilerr // the client's
	}
	if c.Size() < limits.ComposedLeast {
		return c, "A blob of this size is not composed; upload it", nil
	}
	return c, "", nil
}

// composed verifies a composition, whose document is the file name, and stores it. It returns the reason
// why it is rejected, or the error of the disk.
func (s *Store) composed(ctx context.Context, v *verification, c oci.Composition, name string) (why string, err error) {
	queue := time.NewTimer(s.verificationQueue)
	defer queue.Stop()
	select {
	case s.verifying <- struct{}{}:
		defer func() { <-s.verifying }()
	case <-queue.C:
		return "The image store has too many blobs to verify; upload the blob", nil
	}
	ctx, cancel := context.WithTimeout(ctx, limits.CompositionTime)
	defer cancel()
	sum := v.digest.Algorithm().Hash()
	if err := newComposed(s.layout(v.repository), c).copyTo(ctx, sum); err != nil {
		return "", err
	}
	if digest.NewDigest(v.digest.Algorithm(), sum) != v.digest {
		return "The composed blob does not have this digest", nil
	}
	why, err = s.commitComposed(c, v, name)
	if why == "" && err == nil {
		s.broken.Delete(brokenKey{v.repository, v.digest})
	}
	return why, err
}

// useParts records the use of all parts, so that they are not deleted while they are read. It returns the
// reason why that is not possible.
func (u *upload) useParts(c oci.Composition) (why string) {
	lock := u.lock(u.repository)
	lock.RLock()
	defer lock.RUnlock()
	if u.layout(u.repository).checkParts(c) != nil {
		return "A part of the blob is missing, too short, or composed itself; upload it first"
	}
	for part := range c.Blobs() {
		u.touch(u.repository, part)
	}
	return ""
}

// commitComposed stores the composition. A crash leaves either nothing or a list of pieces that is not
// used, which the next collection deletes.
func (s *Store) commitComposed(c oci.Composition, v *verification, name string) (why string, err error) {
	lock := s.lock(v.repository)
	lock.RLock()
	defer lock.RUnlock()
	l := s.layout(v.repository)
	if l.checkParts(c) != nil {
		return "A part of the blob was deleted; upload it again", nil
	}
	to := l.listPath(v.digest)
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return "", err
	}
	if err := os.Rename(name, to); err != nil {
		return "", err
	}
	if err := l.showComposed(v.digest); err != nil {
		return "", err
	}
	s.touch(v.repository, v.digest)
	return "", nil
}

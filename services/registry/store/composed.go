package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/oci"
)

// A composed reads a composed blob from its parts. It has one of them open at a time. It is used by one
// goroutine.
type composed struct {
	layout
	pieces []oci.Piece
	// begins are the positions of the pieces in the blob.
	begins   []int64
	size, at int64
	// file is the open part, or nil.
	file *os.File
	part digest.Digest
}

func newComposed(l layout, c oci.Composition) *composed {
	out := &composed{layout: l, pieces: c.Pieces}
	for _, p := range c.Pieces {
		out.begins = append(out.begins, out.size)
		out.size += p.Length
	}
	return out
}

// EachComposed calls each for the composed blobs of a manifest or an index, and of the manifests in it,
// in a store that is not open. The argument dir is Stored.Layout.
func EachComposed(dir string, manifest digest.Digest, each func(d digest.Digest, size int64, content io.Reader) error) error {
	l, all := layout(dir), map[digest.Digest]bool{}
	l.mark(all, manifest)
	for d := range all {
		if !l.isComposed(d) {
			continue
		}
		c, err := l.openComposed(d)
		if err != nil {
			return fmt.Errorf("reading the blob %s: %w", d, err)
		}
		if err := errors.Join(each(d, c.size, c), c.Close()); err != nil {
			return err
		}
	}
	return nil
}

// openComposed opens a composed blob, of which all parts must exist.
func (l layout) openComposed(d digest.Digest) (*composed, error) {
	c, err := l.composition(d)
	if err != nil {
		return nil, err
	}
	if err := l.checkParts(c); err != nil {
		return nil, err
	}
	return newComposed(l, c), nil
}

// Close implements io.Closer.
func (c *composed) Close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// Seek implements io.Seeker.
func (c *composed) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seeking to a negative position")
	}
	c.at = offset
	return offset, nil
}

// next opens the part with the current position. It returns the position in the part and the number of
// bytes from there on. The error is io.EOF at the end.
func (c *composed) next() (offset, length int64, err error) {
	if c.at >= c.size {
		return 0, 0, io.EOF
	}
	i := sort.Search(len(c.begins), func(i int) bool { return c.begins[i] > c.at }) - 1
	p, skip := c.pieces[i], c.at-c.begins[i]
	if c.file == nil || c.part != p.Digest {
		_ = c.Close() // it was only read
		if c.file, err = os.OpenFile(c.path(p.Digest), os.O_RDONLY|syscall.O_NOFOLLOW, 0); err != nil {
			c.file = nil
			return 0, 0, err
		}
		c.part = p.Digest
	}
	return p.Offset + skip, p.Length - skip, nil
}

// Read implements io.Reader.
func (c *composed) Read(p []byte) (int, error) {
	offset, length, err := c.next()
	if err != nil {
		return 0, err
	}
	n, err := c.file.ReadAt(p[:min(int64(len(p)), length)], offset)
	c.at += int64(n)
	if n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// copyTo copies the rest of the blob.
func (c *composed) copyTo(ctx context.Context, to io.Writer) error {
	defer func() { _ = c.Close() }()
	buf := make([]byte, 256<<10)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := c.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A partWriter is the response with a composed blob. It passes the part itself to the connection, so that
// the kernel sends it without copying.
type partWriter struct {
	http.ResponseWriter
	err error // error of a part, or nil
}

// ReadFrom implements io.ReaderFrom for http.ServeContent, which copies a range of the blob.
func (w *partWriter) ReadFrom(from io.Reader) (n int64, err error) {
	limited, ok := from.(*io.LimitedReader)
	if !ok {
		return io.Copy(w.ResponseWriter, from)
	}
	c, ok := limited.R.(*composed)
	if !ok {
		return io.Copy(w.ResponseWriter, from)
	}
	for limited.N > 0 {
		offset, length, err := c.next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err == nil {
			_, err = c.file.Seek(offset, io.SeekStart)
		}
		if err != nil {
			w.err = err
			return n, err
		}
		length = min(length, limited.N)
		sent, err := io.CopyN(w.ResponseWriter, c.file, length)
		c.at += sent
		limited.N -= sent
		n += sent
		if err != nil {
			if errors.Is(err, io.EOF) {
				w.err = io.ErrUnexpectedEOF
			}
			return n, err
		}
	}
	return n, nil
}

// serveComposed serves a composed blob. If a part of it is lost, the blob does not exist for clients, so
// that builds push it again.
func (s *Store) serveComposed(w http.ResponseWriter, r *http.Request, repository string, d digest.Digest) {
	c, err := s.layout(repository).openComposed(d)
	if err != nil {
		s.lost(r.Context(), repository, d, err)
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "A part of the blob is lost; the image has to be built again")
		return
	}
	defer func() { _ = c.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", d.String())
	out := &partWriter{ResponseWriter: w}
	http.ServeContent(out, r, "", time.Time{}, c)
	if out.err != nil { // the client notices that the response is too short
		s.lost(r.Context(), repository, d, out.err)
	}
}

// A brokenKey identifies a composed blob.
type brokenKey struct {
	repository string
	digest     digest.Digest
}

// lost records that a composed blob cannot be read. Images that refer to it do not exist for clients, so
// that they are built again.
func (s *Store) lost(ctx context.Context, repository string, d digest.Digest, err error) {
	s.log.ErrorContext(ctx, "A blob of the image store cannot be read from its parts; its images have to be built again", "repository", repository, "digest", d, "err", err)
	s.broken.Store(brokenKey{repository, d}, true)
}

// isReadable reports whether a blob is not composed, or has all its parts.
func (s *Store) isReadable(ctx context.Context, repository string, d digest.Digest) bool {
	if l := s.layout(repository); l.isComposed(d) {
		if _, err := l.openComposed(d); err != nil {
			s.lost(ctx, repository, d, err)
			return false
		}
	}
	s.broken.Delete(brokenKey{repository, d})
	return true
}

// hasBroken reports whether a manifest refers to a composed blob that cannot be read.
func (s *Store) hasBroken(ctx context.Context, repository string, manifest digest.Digest) bool {
	found := false
	s.broken.Range(func(any, any) bool { found = true; return false })
	if !found || manifest.Validate() != nil {
		return false
	}
	for _, d := range s.layout(repository).children(manifest) {
		if _, broken := s.broken.Load(brokenKey{repository, d}); broken && !s.isReadable(ctx, repository, d) {
			return true
		}
	}
	return false
}

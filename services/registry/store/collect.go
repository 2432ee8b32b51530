package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
)

// A Retention is the retention policy of the image store. Creating, renewing or pulling a name
// uses the image, so that an image which was not used during the lifetime of a name has no
// valid name.
type Retention struct {
	// Idle is how long an image is retained after its last use. 0 means unlimited.
	Idle time.Duration
	// Lease is the minimum time for which an image is retained after its last use: slightly
	// more than the lifetime of a name.
	Lease time.Duration
	// Unnamed is how long blobs without an image are retained. It must be longer than a
	// push takes. A client that finds a blob instead of pushing it again renews its time.
	Unnamed time.Duration
	// Size is the maximum size of all images in bytes, beyond which the least recently used
	// ones are deleted. 0 means unlimited.
	Size int64
	// Kept is a repository whose images are not deleted, nor those of the repositories below it; "" for none.
	Kept string
}

// A Collected is the result of Collect.
type Collected struct {
	Images []Image `json:"images"`
	Freed  int64   `json:"freed"` // bytes
	Left   int64   `json:"left"`  // bytes
}

// Collect deletes the images that the policy does not retain, and then the blobs without an
// image. It may be interrupted at any time, also by a kill. The next call continues.
func (s *Store) Collect(ctx context.Context, k Retention, now time.Time) (Collected, error) {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	before, err := s.Bytes()
	if err != nil {
		return Collected{}, err
	}
	expired, err := s.expired(k, now)
	if err != nil {
		return Collected{}, err
	}
	out := Collected{Left: before}
	for first := true; first || len(expired) > 0; first = false {
		gone, err := s.remove(ctx, expired, k, now)
		out.Images = append(out.Images, gone...)
		if err != nil {
			return out, err
		}
		if out.Left, err = s.Bytes(); err != nil {
			return out, err
		}
		out.Freed = before - out.Left
		if k.Size == 0 || out.Left <= k.Size || !first && len(gone) == 0 {
			break
		}
		if expired, err = s.surplus(out.Left-k.Size, k, now); err != nil {
			return out, err
		}
	}
	return out, ctx.Err()
}

// Expired returns the images that Collect would delete.
func (s *Store) Expired(k Retention, now time.Time) ([]Image, error) {
	out, err := s.expired(k, now)
	if err != nil || k.Size == 0 {
		return out, err
	}
	left, err := s.Bytes()
	for _, i := range out {
		left -= i.Size
	}
	if err != nil || left <= k.Size {
		return out, err
	}
	more, err := s.surplus(left-k.Size, k, now)
	for _, i := range more {
		if !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out, err
}

func (s *Store) expired(k Retention, now time.Time) ([]Image, error) {
	if k.Idle == 0 {
		return nil, nil
	}
	all, err := s.Images()
	last := now.Add(-max(k.Idle, k.Lease))
	return slices.DeleteFunc(all, func(i Image) bool { return !i.Used.Before(last) || k.keeps(i) }), err
}

// keeps reports whether an image is not deleted, whatever its age.
func (k Retention) keeps(i Image) bool {
	return k.Kept != "" && strings.HasPrefix(i.Repository+"/", k.Kept+"/")
}

// surplus returns the least recently used images, with at least the given size in total. It
// skips images within k.Lease, and returns all others if they are smaller together.
func (s *Store) surplus(bytes int64, k Retention, now time.Time) ([]Image, error) {
	all, err := s.Images()
	all = slices.DeleteFunc(all, func(i Image) bool { return !i.Used.Before(now.Add(-k.Lease)) || k.keeps(i) })
	slices.SortFunc(all, func(a, b Image) int { return a.Used.Compare(b.Used) })
	for n, i := range all {
		if bytes -= i.Size; bytes <= 0 {
			return all[:n+1], err
		}
	}
	return all, err
}

// Bytes returns the disk space that all repositories use.
func (s *Store) Bytes() (sum int64, err error) {
	linked := map[uint64]bool{} // files shared by several repositories, by inode
	err = filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil && !seen(linked, info) {
				sum += info.Size()
			}
		}
		return nil // files may be created and deleted concurrently
	})
	return sum, err
}

// seen reports whether a file was already seen under another name, and records it.
func seen(linked map[uint64]bool, info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink < 2 {
		return false
	}
	before := linked[stat.Ino]
	linked[stat.Ino] = true
	return before
}

// remove deletes the given images unless they were used in the meantime, and then the blobs
// without an image, repository by repository.
func (s *Store) remove(ctx context.Context, expired []Image, k Retention, now time.Time) (gone []Image, err error) {
	names, err := s.repositories()
	for _, name := range names {
		if err != nil || ctx.Err() != nil {
			return gone, err
		}
		of := slices.DeleteFunc(slices.Clone(expired), func(i Image) bool { return i.Repository != name })
		var some []Image
		some, err = s.clear(name, of, now.Add(-k.Unnamed))
		gone = append(gone, some...)
	}
	return gone, err
}

// clear is remove for one repository. It holds the repository's lock, so that no manifest
// is requested, no blob is checked and no push completes in the meantime. Blobs that are
// being read remain readable, and uploads are not affected.
func (s *Store) clear(repository string, expired []Image, unnamed time.Time) (gone []Image, err error) {
	lock := s.lock(repository)
	lock.Lock()
	defer lock.Unlock()
	l := s.layout(repository)
	for _, i := range expired {
		if l.used(digest.Digest(i.Digest)).After(i.Used) {
			continue
		}
		if err := s.delete(repository, i.Tag); err != nil {
			return gone, err
		}
		gone = append(gone, i)
	}
	if err := s.sweep(l, repository, unnamed); err != nil {
		return gone, err
	}
	return gone, l.dropUploads(unnamed)
}

// sweep deletes the blobs of a repository that belong to no image and are older than unnamed.
func (s *Store) sweep(l layout, repository string, unnamed time.Time) error {
	marked, listed, err := l.reached(unnamed)
	if err != nil {
		return err
	}
	var trouble error
	err = l.blobs(func(d digest.Digest, info fs.FileInfo) {
		if trouble != nil || marked[d] || info.ModTime().After(unnamed) {
			return
		}
		if listed[d] {
			if trouble = s.delete(repository, d.String()); trouble != nil {
				return
			}
		}
		trouble = os.Remove(l.path(d))
	})
	if err = errors.Join(err, trouble); err != nil {
		return err
	}
	return l.dropLists(unnamed)
}

// dropLists deletes the lists of pieces that are older than the given time and whose blob was deleted.
func (l layout) dropLists(before time.Time) error {
	for d := range l.lists() {
		info, err := os.Stat(l.listPath(d))
		if err != nil || info.ModTime().After(before) || l.isComposed(d) {
			continue
		}
		if err := os.Remove(l.listPath(d)); err != nil {
			return err
		}
	}
	return nil
}

// reached returns the digests that belong to a tag or are younger than young, with their
// referrers and the parts of composed blobs, and the digests that are listed in index.json.
func (l layout) reached(young time.Time) (marked, listed map[digest.Digest]bool, err error) {
	entries, err := l.entries()
	marked, listed = map[digest.Digest]bool{}, map[digest.Digest]bool{}
	for _, e := range entries {
		listed[e.Digest] = true
		if subjectOf(e) == "" && (tagOf(e) != "" || l.used(e.Digest).After(young)) {
			l.mark(marked, e.Digest)
		}
	}
	for d := range l.lists() { // its client may push an image with it
		if l.isComposed(d) && l.used(d).After(young) {
			l.mark(marked, d)
		}
	}
	for before := -1; before != len(marked); { // referrers have referrers
		before = len(marked)
		for _, e := range entries {
			if marked[subjectOf(e)] {
				l.mark(marked, e.Digest)
			}
		}
	}
	return marked, listed, err
}

// DropUploads deletes uploads without progress since the given time.
func (s *Store) DropUploads(before time.Time) error {
	names, err := s.repositories()
	for _, name := range names {
		err = errors.Join(err, s.layout(name).dropUploads(before))
	}
	return err
}

// dropUploads is DropUploads for one repository.
func (l layout) dropUploads(before time.Time) error {
	files, err := filepath.Glob(filepath.Join(string(l), uploads, "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.ModTime().Before(before) {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return err
}

// delete deletes a tag or manifest through olareg, which caches index.json in memory.
func (s *Store) delete(repository, reference string) error {
	w, err := s.request(http.MethodDelete, "/v2/"+repository+"/manifests/"+reference)
	if err != nil {
		return err
	}
	if w.status != http.StatusAccepted && w.status != http.StatusNotFound {
		return fmt.Errorf("deleting %[2]s:%[3]s from the image store returned status %[1]d", w.status, repository, reference)
	}
	return nil
}

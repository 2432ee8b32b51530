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
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
)

// Keep says what the image store keeps. Whoever makes a name for an image, renews
// one, or pulls looks at the image, and so uses it: what was not used for as long as
// a name can live has no living name.
type Keep struct {
	// Idle is how long an image is kept after it was last used; 0 is for ever.
	Idle time.Duration
	// Lease is how long it is kept in any case: the life of a name, and some more.
	Lease time.Duration
	// Unnamed is how long blobs are kept that no image has (yet): longer than a push
	// takes. Whoever finds one instead of pushing it again renews its time.
	Unnamed time.Duration
	// Size is how many bytes all may take up; what was used longest ago goes first. 0
	// is no bound.
	Size int64
}

// Collected is what was removed from the store, or would be.
type Collected struct {
	Images []Image `json:"images"`
	Freed  int64   `json:"freed"` // bytes
	Left   int64   `json:"left"`  // bytes
}

// Collect removes what k does not keep: names first, then what belongs to none. It
// may be ended at any time, also by kill -9; the next one goes on.
func (s *Store) Collect(ctx context.Context, k Keep, now time.Time) (Collected, error) {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	before, err := s.Bytes()
	if err != nil {
		return Collected{}, err
	}
	doomed, err := s.expired(k, now)
	if err != nil {
		return Collected{}, err
	}
	out := Collected{Left: before}
	for first := true; first || len(doomed) > 0; first = false {
		gone, err := s.remove(ctx, doomed, k, now)
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
		if doomed, err = s.surplus(out.Left-k.Size, k, now); err != nil {
			return out, err
		}
	}
	return out, ctx.Err()
}

// Expired lists the images that Collect would remove.
func (s *Store) Expired(k Keep, now time.Time) ([]Image, error) {
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

func (s *Store) expired(k Keep, now time.Time) ([]Image, error) {
	if k.Idle == 0 {
		return nil, nil
	}
	all, err := s.Images()
	last := now.Add(-max(k.Idle, k.Lease))
	return slices.DeleteFunc(all, func(i Image) bool { return !i.Used.Before(last) }), err
}

// surplus are the images that were used longest ago, as many as take up so much.
func (s *Store) surplus(bytes int64, k Keep, now time.Time) ([]Image, error) {
	all, err := s.Images()
	all = slices.DeleteFunc(all, func(i Image) bool { return !i.Used.Before(now.Add(-k.Lease)) })
	slices.SortFunc(all, func(a, b Image) int { return a.Used.Compare(b.Used) })
	for n, i := range all {
		if bytes -= i.Size; bytes <= 0 {
			return all[:n+1], err
		}
	}
	return all, err
}

// Bytes is what all repositories take up on disk.
func (s *Store) Bytes() (sum int64, err error) {
	linked := map[uint64]bool{} // files that several repositories have, by inode
	err = filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil && !seen(linked, info) {
				sum += info.Size()
			}
		}
		return nil // files come and go under us
	})
	return sum, err
}

// seen says whether a file was told of before under another name, and notes it.
func seen(linked map[uint64]bool, info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink < 2 {
		return false
	}
	before := linked[stat.Ino]
	linked[stat.Ino] = true
	return before
}

// remove takes the names of images away, but for those that were used meanwhile, and
// then what belongs to none, repository by repository.
func (s *Store) remove(ctx context.Context, doomed []Image, k Keep, now time.Time) (gone []Image, err error) {
	names, err := s.repositories()
	for _, name := range names {
		if err != nil || ctx.Err() != nil {
			return gone, err
		}
		of := slices.DeleteFunc(slices.Clone(doomed), func(i Image) bool { return i.Repository != name })
		var some []Image
		some, err = s.clear(name, of, now.Add(-k.Unnamed))
		gone = append(gone, some...)
	}
	return gone, err
}

// clear does it for one repository, while nobody asks there for a manifest or whether
// a blob is there, and no push ends. Blobs that are being read can be read to their
// end; what is being uploaded is not in sight.
func (s *Store) clear(repository string, doomed []Image, unnamed time.Time) (gone []Image, err error) {
	door := s.door(repository)
	door.Lock()
	defer door.Unlock()
	l := s.layout(repository)
	for _, i := range doomed {
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

// sweep removes the blobs of a repository that no name leads to, and that are old enough.
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
	if err != nil {
		return err
	}
	return trouble
}

// reached are the digests that a name leads to, or that are too young to be without
// one, with what refers to them; listed are those that index.json has.
func (l layout) reached(young time.Time) (marked, listed map[digest.Digest]bool, err error) {
	entries, err := l.entries()
	marked, listed = map[digest.Digest]bool{}, map[digest.Digest]bool{}
	for _, e := range entries {
		listed[e.Digest] = true
		if subjectOf(e) == "" && (tagOf(e) != "" || l.used(e.Digest).After(young)) {
			l.mark(marked, e.Digest)
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

// DropUploads removes what was begun to be pushed, and not gone on with since a time.
func (s *Store) DropUploads(before time.Time) error {
	names, err := s.repositories()
	for _, name := range names {
		err = errors.Join(err, s.layout(name).dropUploads(before))
	}
	return err
}

// dropUploads removes what was begun to be pushed, and not gone on with.
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

// delete has the library forget a tag or a manifest: it keeps index.json in memory.
func (s *Store) delete(repository, reference string) error {
	w, err := s.ask(http.MethodDelete, "/v2/"+repository+"/manifests/"+reference)
	if err != nil {
		return err
	}
	if w.status != http.StatusAccepted && w.status != http.StatusNotFound {
		return fmt.Errorf("the image store answers %d to the removal of %s:%s", w.status, repository, reference)
	}
	return nil
}

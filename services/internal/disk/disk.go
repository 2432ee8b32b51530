// Package disk measures the free space of the disks on which a process stores data, and
// reports when it falls below a reserve.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Space is the space of a disk in bytes.
type Space struct {
	// Free is the space that an ordinary user may still use.
	Free int64
	// Size is the size of the disk without the part that is reserved for root.
	Size int64
}

// Of returns the space of the disk of a path. If the path does not exist, that is the disk of
// its nearest existing parent.
func Of(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(Existing(path), &s); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	used := int64(s.Blocks) - int64(s.Bfree)
	return Space{Free: int64(s.Bavail) * s.Bsize, Size: (used + int64(s.Bavail)) * s.Bsize}, nil
}

// Existing returns dir if it exists, or else its nearest existing parent folder.
func Existing(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == "/" || at == "." {
			return at
		}
	}
}

// Same reports whether two existing paths are on the same disk.
func Same(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// A Folder is a folder in which a process stores data.
type Folder struct {
	// Name is the setting that names the folder, for example "data_dir".
	Name string
	// Path is the folder, which need not exist yet.
	Path string
}

// A Watch watches the disks of some folders. Its methods are safe for concurrent use.
type Watch struct {
	folders []Folder
	reserve int64
	// of is Of, except in tests.
	of func(path string) (Space, error)
}

// NewWatch returns a Watch of folders. If reserve, in bytes, is 0, no disk is ever too full.
// Of several folders on one disk only the first is watched.
func NewWatch(reserve int64, folders ...Folder) *Watch {
	w := &Watch{reserve: reserve, of: Of}
	for _, f := range folders {
		known := false
		for _, other := range w.folders {
			known = known || Same(Existing(f.Path), Existing(other.Path))
		}
		if !known {
			w.folders = append(w.folders, f)
		}
	}
	return w
}

// Folders returns the watched folders.
func (w *Watch) Folders() []Folder { return w.folders }

// Space returns the space of the disk of a folder.
func (w *Watch) Space(f Folder) (Space, error) { return w.of(f.Path) }

// Check returns an error, for operators, if the free space of a disk is below the reserve or
// cannot be measured.
func (w *Watch) Check() error {
	var problems []error
	for _, f := range w.folders {
		space, err := w.of(f.Path)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("the free space of %s cannot be measured: %w", f.Name, err))
		case space.Free < w.reserve:
			problems = append(problems, fmt.Errorf("the disk of %s (%s) has %s left, less than disk_reserve (%s): free space on it", f.Name, f.Path, bytes(space.Free), bytes(w.reserve)))
		}
	}
	return errors.Join(problems...)
}

// bytes formats a size in MiB or GiB.
func bytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

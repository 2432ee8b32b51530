package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUntrusted is returned for the files of an image that other users can change.
var ErrUntrusted = errors.New("other users can change the unpacked image")

// Root returns the folder with the unpacked files of an image, which id identifies: hexadecimal digits. They are not verified again, so that
// they are only used if this user or root owns them. If neither this cache nor one below has them, fill is called with a new folder, and must
// create the folder root in it.
func (c *Cache) Root(id string, now time.Time, fill func(folder string) error) (string, error) {
	path, err := c.findRoot(id)
	if err == nil {
		c.touchRoot(path, now)
		return path, nil
	}
	if !errors.Is(err, ErrMissing) || fill == nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(c.dir, tmp), 0o755); err != nil { //nolint:gosec // other users may read a shared cache
		return "", fmt.Errorf("unpacking the image in the cache: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Join(c.dir, tmp), "root-")
	if err != nil {
		return "", fmt.Errorf("unpacking the image in the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := fill(work); err != nil {
		return "", err
	}
	if err := c.publish(filepath.Join(work, "root"), id); err != nil {
		return "", fmt.Errorf("unpacking the image in the cache: %w", err)
	}
	return c.findRoot(id)
}

// publish writes the files to the disk, so that they are as written after a crash of the machine, and renames their folder. Another process
// may have done so before.
func (c *Cache) publish(folder, id string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Syncfs(int(f.Fd())), f.Close()); err != nil {
		return err
	}
	if err := c.makeRoots(); err != nil {
		return err
	}
	err = os.Rename(folder, filepath.Join(c.dir, roots, id))
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// makeRoots creates the folder of unpacked images, which other users may read whatever the umask is.
func (c *Cache) makeRoots() error {
	folder := filepath.Join(c.dir, roots)
	err := os.Mkdir(folder, 0o755) //nolint:gosec // other users may read a shared cache
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(folder, 0o755) //nolint:gosec // as above
}

// findRoot returns the folder of an unpacked image, ErrMissing or ErrUntrusted. One of another cache that cannot be used, because others can change it
// or this user cannot read it, is missing: the cache of an administrator may belong to another user.
func (c *Cache) findRoot(id string) (string, error) {
	path, err := c.rootIn(c.dir, id)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	var skipped error
	for _, dir := range c.lower {
		path, err := c.rootIn(dir, id)
		if err == nil {
			return path, nil
		}
		if _, statErr := os.Lstat(path); statErr == nil && skipped == nil {
			skipped = err
		}
	}
	if skipped != nil {
		return "", fmt.Errorf("the unpacked image is %w: that of a read-only cache is not used: %w", ErrMissing, skipped)
	}
	return "", fmt.Errorf("the unpacked image is %w", ErrMissing)
}

// rootIn returns the folder of an unpacked image in a folder of the cache, and an error if it cannot be used.
func (c *Cache) rootIn(dir, id string) (string, error) {
	path := filepath.Join(dir, roots, id)
	return path, checkFolders(dir, filepath.Join(dir, roots), path)
}

// checkFolders verifies that only this user and root can change folders.
func checkFolders(paths ...string) error {
	for i, path := range paths {
		flags := unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		if i > 0 {
			flags |= unix.O_NOFOLLOW
		}
		fd, err := unix.Open(path, flags, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		safe := isSafe(fd, false)
		_ = unix.Close(fd)
		if !safe {
			return fmt.Errorf("%w: %s must belong to this user or root, and others must not write it; set SLIPWAY_CACHE", ErrUntrusted, path)
		}
	}
	return nil
}

// touchRoot records that an unpacked image is used, at most once an hour: the time of its folder is that of the last use.
func (c *Cache) touchRoot(path string, now time.Time) {
	if filepath.Dir(path) != filepath.Join(c.dir, roots) {
		return
	}
	info, err := os.Lstat(path)
	if err == nil && now.Sub(info.ModTime()) >= rootTouch {
		err = os.Chtimes(path, now, now)
	}
	if !isMissing(err) {
		c.failed(err)
	}
}

// Times of unpacked images. The use of one is recorded when a command starts, so that one is never deleted on the day after it.
const (
	rootTouch = time.Hour
	rootLife  = 24*time.Hour + rootTouch
)

// cleanRoots moves the unpacked images that were last used before now - keep to the trash: commands may use them.
func (c *Cache) cleanRoots(done *Cleaned, keep time.Duration, now time.Time) error {
	list, err := c.list(roots)
	if err != nil {
		return err
	}
	for _, info := range list {
		if info.IsDir() && now.Sub(info.ModTime()) > max(keep, rootLife) {
			c.discard(done, info, now, roots, info.Name())
		}
	}
	return nil
}

// removeFolder deletes an unpacked image, or one that was not completed, and counts its files.
func (c *Cache) removeFolder(done *Cleaned, elem ...string) {
	path := filepath.Join(append([]string{c.dir}, elem...)...)
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if info, err := e.Info(); err == nil {
			done.Files, done.Bytes = done.Files+1, done.Bytes+info.Size()
		}
		return nil
	})
	if err = errors.Join(err, os.RemoveAll(path)); !isMissing(err) {
		c.failed(err)
	}
}

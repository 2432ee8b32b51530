// Package cache stores what mounted environments consist of, and fetches what is missing.
//
// A cache is a folder that any number of processes on any number of nodes may share. There are no locks: a file appears by
// rename, and never changes. Processes that fetch the same content write the same bytes.
//
//	blobs/ID       a package, complete and uncompressed: one inode per package
//	chunks/xx/SHA  a chunk of a package that is not complete yet
//	tables/DIGEST  where the chunks of a package are in its blob at the registry
//	documents/SHA  manifests, configs and compressed indexes, by their own digest
//	indexes/SHA    an index, uncompressed, by the digest of the compressed one
//	firsts/SHA     what commands read first of an environment, by the digest of its compressed index
//	names/SHA      what a name resolved to
//	envs/SHA       an environment that was used, at most a day after the time of the file
//	roots/SHA      the unpacked files of an image, by the digests of its layers; the time of the folder is that of its last use
//	trash, tmp     deleted files, which other nodes may still read, and unfinished ones
//
// A write that fails, because the disk is full or the folder is read-only, never makes a read fail. Content whose digest
// is not verified at each read is only used if it cannot be changed by other users.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Folders of a cache.
const (
	blobs, chunks, tables, documents, indexes, firsts, names, envs, roots, trash, tmp = "blobs", "chunks", "tables", "documents", "indexes", "firsts", "names", "envs", "roots", "trash", "tmp"
)

// A Cache is a folder with read-only ones below it. It is safe for concurrent use.
type Cache struct {
	dir   string
	lower []string
	// ofRoot are the folders of root in a user namespace: see TrustRoot.
	ofRoot []string

	mu      sync.Mutex
	problem error             // the first write that failed
	memory  map[string][]byte // the documents that this process added
}

// Open returns the cache in the folder dir. Content that it lacks is looked for in the folders lower, which are never
// written. The folder is created by the first write.
func Open(dir string, lower ...string) *Cache { return &Cache{dir: dir, lower: lower} }

// Dir returns the folder of the cache.
func (c *Cache) Dir() string { return c.dir }

// Lower returns the read-only folders.
func (c *Cache) Lower() []string { return c.lower }

// Problem returns the error of the first write that failed; nil for none. Reads work without the cache, and the next
// process fetches again what was not stored.
func (c *Cache) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

func (c *Cache) failed(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == nil {
		c.problem = fmt.Errorf("storing in the cache %s: %w", c.dir, err)
	}
}

// A found file is open for reading.
type found struct {
	*os.File
	size int64
	time time.Time
	// trusted is set if the file and its folders belong to this user or root, and other users cannot write them.
	trusted bool
}

// open opens a file of the cache or of one below. Only regular files are opened, and no symbolic link is followed in the last two
// components, so that the check of the owners is that of the opened file.
func (c *Cache) open(elem ...string) (*found, error) {
	for _, root := range append([]string{c.dir}, c.lower...) {
		f, err := openIn(root, elem, slices.Contains(c.ofRoot, root))
		if err == nil || !isMissing(err) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, fs.ErrPermission)
}

func openIn(root string, elem []string, ofRoot bool) (*found, error) {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	trusted := true
	for i, name := range elem {
		trusted = trusted && isSafe(at, ofRoot)
		flags := unix.O_PATH | unix.O_DIRECTORY
		if i == len(elem)-1 {
			flags = unix.O_RDONLY | unix.O_NONBLOCK
		}
		next, err := unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(append([]string{root}, elem[:i+1]...)...), Err: err}
		}
		_ = unix.Close(at)
		at = next
	}
	fd, err := unix.Dup(at)
	if err != nil {
		return nil, fmt.Errorf("opening a file of the cache: %w", err)
	}
	unix.CloseOnExec(fd)
	return describe(os.NewFile(uintptr(fd), filepath.Join(append([]string{root}, elem...)...)), trusted && isSafe(at, ofRoot))
}

func describe(f *os.File, trusted bool) (*found, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &found{File: f, size: info.Size(), time: info.ModTime(), trusted: trusted}, nil
}

// overflowUser is the owner of files in a user namespace if their own one is not in it.
const overflowUser = 65534

// isSafe reports whether only this user and root can change a file or folder. With ofRoot, a file of overflowUser is one of root.
func isSafe(fd int, ofRoot bool) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false
	}
	owner := st.Uid == 0 || int(st.Uid) == os.Getuid() || ofRoot && st.Uid == overflowUser
	return owner && st.Mode&(unix.S_IWGRP|unix.S_IWOTH) == 0
}

// RootFolders returns those of the cache's folders in which only root can create files, for TrustRoot.
func (c *Cache) RootFolders() []string {
	var out []string
	for _, root := range append([]string{c.dir}, c.lower...) {
		all := []string{root}
		for _, name := range []string{blobs, chunks, tables, documents, indexes, firsts, names, envs} {
			all = append(all, filepath.Join(root, name))
		}
		if !slices.ContainsFunc(all, func(path string) bool { return !isOfRoot(path, path == root) }) {
			out = append(out, root)
		}
	}
	return out
}

// isOfRoot reports whether a path is a folder of root that other users cannot write, or does not exist.
func isOfRoot(path string, must bool) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return errors.Is(err, unix.ENOENT) && !must
	}
	return st.Uid == 0 && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&(unix.S_IWGRP|unix.S_IWOTH) == 0
}

// TrustRoot tells a process in a user namespace in which folders only root can create files. In the namespace, root looks like any
// other user, so that files of a cache that the administrator provides would be verified at each read. It must be called before the
// cache is used.
func (c *Cache) TrustRoot(folders []string) { c.ofRoot = folders }

// read returns a file of at most limit bytes.
func (c *Cache) read(limit int64, elem ...string) (b []byte, trusted bool, err error) {
	f, err := c.open(elem...)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	if f.size > limit {
		return nil, false, fmt.Errorf("%s has %d bytes, and the limit is %d", f.Name(), f.size, limit)
	}
	b = make([]byte, f.size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return b, f.trusted, nil
}

// write stores a file. It never fails: see Problem.
func (c *Cache) write(data []byte, elem ...string) bool {
	err := c.create(func(w *os.File) error {
		_, err := w.Write(data)
		return err
	}, elem...)
	c.failed(err)
	return err == nil
}

// create writes a file under a temporary name and renames it.
func (c *Cache) create(fill func(*os.File) error, elem ...string) error {
	path := filepath.Join(append([]string{c.dir}, elem...)...)
	folder := filepath.Join(c.dir, tmp)
	f, err := os.CreateTemp(folder, "new-")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(folder, 0o755); err == nil { //nolint:gosec // other users may read a shared cache
			f, err = os.CreateTemp(folder, "new-")
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // of an error; the file was renamed otherwise
	err = fill(f)
	if err == nil {
		err = f.Chmod(modeOf(elem[0]))
	}
	if err == nil && (elem[0] == blobs || elem[0] == indexes) {
		err = f.Sync() // these are not verified at each read: after a crash of the machine they must be as written, or missing
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = os.Rename(f.Name(), path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil { //nolint:gosec // other users may read a shared cache
			err = os.Rename(f.Name(), path)
		}
	}
	return err
}

// modeOf returns the permissions of the files of a folder. Other users may read a shared cache, but names of images may have tokens.
func modeOf(folder string) fs.FileMode {
	if folder == names {
		return 0o600
	}
	return 0o644
}

// has reports whether the cache or one below has a file.
func (c *Cache) has(elem ...string) bool {
	for _, root := range append([]string{c.dir}, c.lower...) {
		if info, err := os.Lstat(filepath.Join(append([]string{root}, elem...)...)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// remove deletes a file.
func (c *Cache) remove(elem ...string) {
	err := os.Remove(filepath.Join(append([]string{c.dir}, elem...)...))
	if !isMissing(err) {
		c.failed(err)
	}
}

// hexOf returns the hexadecimal part of a sha256 digest, or "" for another one.
func hexOf(digest string) string {
	h, ok := trimDigest(digest)
	if !ok {
		return ""
	}
	return h
}

func trimDigest(digest string) (string, bool) {
	const prefix = "sha256:"
	if len(digest) != len(prefix)+2*sha256.Size || digest[:len(prefix)] != prefix {
		return "", false
	}
	h := digest[len(prefix):]
	if raw, err := hex.DecodeString(h); err != nil || hex.EncodeToString(raw) != h {
		return "", false
	}
	return h, true
}

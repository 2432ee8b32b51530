package buildkit

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// contextSize holds the limits of a context.
type contextSize struct {
	packed  int64 // bytes of the gzipped tar
	bytes   int64 // bytes of all files
	entries int
}

func contextLimits() contextSize {
	return contextSize{packed: limits.ContextPacked, bytes: limits.ContextBytes, entries: limits.ContextEntries}
}

// A refusal is the reason why a context is rejected.
type refusal string

// Error returns the text for the user.
func (r refusal) Error() string { return string(r) }

func refused(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// unpack writes the files of a gzipped tar below dir. It never writes outside dir: every
// path is opened relative to dir, and links cannot lead out. Devices are rejected. Owners
// and special mode bits are ignored.
func unpack(r io.Reader, dir string, l contextSize) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	gz, err := gzip.NewReader(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return fmt.Errorf("it is not a gzip'd tar: %w", err)
	}
	u := &unpacker{root: root, left: l}
	// Headers are limited as well, since a tar can consist of headers only.
	in := tar.NewReader(io.LimitReader(gz, l.bytes+int64(l.entries)*1024))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not a gzip'd tar: %w", err)
		}
		if err := u.entry(h, in); err != nil {
			return err
		}
	}
}

type unpacker struct {
	root *os.Root
	// left is the remaining size.
	left contextSize
	// folder is the last entry's folder, which exists.
	folder string
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	u.left.entries--
	u.left.bytes -= h.Size
	if u.left.entries < 0 || u.left.bytes < 0 || h.Size < 0 {
		return refused("it is too large")
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	if err := u.parents(filepath.Dir(name)); err != nil {
		return notUnpacked(h, err)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		before := u.left.entries
		if err = u.parents(name); u.left.entries < before {
			u.left.entries++ // this folder was counted as an entry
		}
	case tar.TypeReg:
		err = u.file(name, h, content)
	case tar.TypeSymlink:
		err = u.symlink(name, h.Linkname)
	case tar.TypeLink:
		err = u.hardlink(name, h.Linkname)
	default:
		return refused("%q is neither a file, a folder nor a link", fault.Clip(h.Name, 100))
	}
	return notUnpacked(h, err)
}

// parents creates a folder and its parents. Each created folder counts as an entry.
func (u *unpacker) parents(dir string) error {
	if dir == u.folder || dir == "." {
		return nil
	}
	if strings.Count(dir, string(filepath.Separator)) >= limits.ContextDepth {
		return refused("%q has more than %d folders within each other", fault.Clip(dir, 100), limits.ContextDepth)
	}
	for above := dir; above != "."; above = filepath.Dir(above) {
		if _, err := u.root.Lstat(above); err == nil {
			break
		}
		if u.left.entries--; u.left.entries < 0 {
			return refused("it is too large")
		}
	}
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	u.folder = dir
	return nil
}

func notUnpacked(h *tar.Header, err error) error {
	if err == nil || errors.As(err, new(refusal)) {
		return err
	}
	return fmt.Errorf("%q cannot be unpacked: %w", fault.Clip(h.Name, 100), err)
}

func (u *unpacker) file(name string, h *tar.Header, content io.Reader) error {
	if err := u.clear(name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	// The owner may always read and write, otherwise the daemon could not copy the file.
	return errors.Join(err, f.Chmod(os.FileMode(h.Mode)&0o777|0o600), f.Close())
}

// clear removes an earlier entry of the same name: the last one wins.
func (u *unpacker) clear(name string) error {
	info, err := u.root.Lstat(name)
	if err != nil || info.IsDir() {
		return nil //nolint:nilerr // a missing file needs no removal; other errors are returned when the file is created
	}
	return u.root.Remove(name)
}

// symlink creates a link that stays inside.
func (u *unpacker) symlink(name, target string) error {
	if len(target) > 4096 || strings.ContainsRune(target, 0) || path.IsAbs(target) {
		return refused("the link %q leads out of the context", fault.Clip(name, 100))
	}
	if _, err := inside(path.Join(path.Dir(filepath.ToSlash(name)), target)); err != nil {
		return refused("the link %q leads out of the context", fault.Clip(name, 100))
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Symlink(target, name)
}

func (u *unpacker) hardlink(name, target string) error {
	from, err := inside(target)
	if err != nil {
		return err
	}
	if from == name {
		return nil
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Link(from, name)
}

// inside returns a path of a context in the machine's syntax, or an error if it leads out.
func inside(name string) (string, error) {
	if name == "" || len(name) > 4096 || strings.ContainsRune(name, 0) {
		return "", refused("a file has no proper name")
	}
	if !utf8.ValidString(name) {
		return "", refused("the name %q is not UTF-8; rename the file", fault.Clip(name, 100))
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", refused("%q leads out of the context", fault.Clip(name, 100))
	}
	return filepath.FromSlash(clean), nil
}

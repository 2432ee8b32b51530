package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Prepare separates the mounts of this namespace from those of the system, and makes prefix a folder. A user cannot create it:
// its parent becomes a tmpfs with what the parent had, or the root if the parent does not exist either.
func Prepare(prefix string) error {
	if err := separate(); err != nil {
		return err
	}
	if isFolder(prefix) {
		return nil
	}
	parent := filepath.Dir(prefix)
	for !isFolder(parent) {
		parent = filepath.Dir(parent)
	}
	if parent == "/" {
		return newRoot(prefix)
	}
	entries, err := openEntries(parent, firstOf(parent, prefix))
	if err != nil {
		return err
	}
	defer entries.close()
	if err := mountTmpfs(parent); err != nil {
		return err
	}
	if err := entries.show(parent); err != nil {
		return err
	}
	return makeFolder(prefix)
}

// separate separates the mounts of this namespace from those of the system.
func separate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return denied(fmt.Errorf("separating the mounts of the namespace: %w", err))
	}
	return nil
}

func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // as those of the system
		return fmt.Errorf("creating %s in the namespace: %w", path, err)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func mountTmpfs(at string) error {
	if err := unix.Mount("slipway", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return denied(fmt.Errorf("mounting a tmpfs at %s: %w", at, err))
	}
	return nil
}

// newRoot replaces the root by a tmpfs with everything that the root has, and the prefix.
func newRoot(prefix string) error {
	base := spareFolder("")
	if base == "" {
		return errors.New("the system has no folder for a new root")
	}
	entries, err := openEntries("/", firstOf("/", prefix))
	if err != nil {
		return err
	}
	defer entries.close()
	if err := mountTmpfs(base); err != nil {
		return err
	}
	if err := entries.showWithout(base); err != nil {
		return err
	}
	if err := makeFolder(filepath.Join(base, prefix)); err != nil {
		return err
	}
	if err := os.Chdir(base); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root (which no kernel can if the root is an initramfs; create the folder %s then): %w", prefix, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the old root: %w", err)
	}
	return os.Chdir("/")
}

// entries are the entries of a folder, which are opened before something is mounted there.
type entries []entry

type entry struct {
	name   string
	mode   fs.FileMode
	target string // of a symbolic link
	fd     int
}

// firstOf returns the name of the entry of folder with path.
func firstOf(folder, path string) string {
	rest, err := filepath.Rel(folder, path)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// openEntries opens all entries but the one called except.
func openEntries(folder, except string) (entries, error) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", folder, err)
	}
	var out entries
	for _, one := range list {
		path := filepath.Join(folder, one.Name())
		if one.Name() == except { // no folder, e.g. a link whose target does not exist
			continue
		}
		e := entry{name: one.Name(), mode: one.Type(), fd: -1}
		if e.mode&fs.ModeSymlink != 0 {
			e.target, err = os.Readlink(path)
		} else {
			e.fd, err = unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			out.close()
			return nil, fmt.Errorf("opening %s: %w", path, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func (all entries) close() {
	for _, e := range all {
		if e.fd >= 0 {
			_ = unix.Close(e.fd)
		}
	}
}

// show makes the entries appear in another folder.
func (all entries) show(folder string) error {
	for _, e := range all {
		if err := e.show(filepath.Join(folder, e.name)); err != nil {
			return fmt.Errorf("showing %s in the namespace: %w", e.name, err)
		}
	}
	return nil
}

// showWithout makes the entries of the root appear in base, on which a tmpfs was mounted. The copy of the entry with base contains a
// copy of the tmpfs, which would hide the files of base: it is unmounted.
func (all entries) showWithout(base string) error {
	first := firstOf("/", base)
	for _, e := range all {
		if e.name == first {
			if err := (entries{e}).show(base); err != nil {
				return err
			}
			if err := unix.Unmount(base+base, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("showing %s in the namespace: %w", base, err)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.name == first }).show(base)
}

func (e entry) show(to string) error {
	var err error
	switch {
	case e.fd < 0:
		return os.Symlink(e.target, to)
	case e.mode.IsDir():
		err = os.Mkdir(to, 0o700) // below the mount
	default:
		err = os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return unix.Mount(descriptorPath(e.fd), to, "", unix.MS_BIND|unix.MS_REC, "")
}

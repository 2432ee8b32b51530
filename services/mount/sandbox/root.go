package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Root is the root file system of a command, instead of that of the system. The command cannot change it. It has the folders /proc, /sys and /dev
// of the system; for root, they are restricted as in containers.
type Root struct {
	// Folder has the files.
	Folder string
	// Empty are folders that are empty and writable, and exist in memory for this command only.
	Empty []string
	// Binds are what the command sees of the system besides, in this order. They may be in empty folders.
	Binds []Bind
	// Files are the contents of files that replace those of Folder, by their paths. Files that Folder lacks are left out.
	Files map[string][]byte
}

// A Bind makes a file or folder of the system visible in a Root.
type Bind struct {
	From, To string
	// ReadOnly is set if the command cannot change it, nor what is mounted below it.
	ReadOnly bool
	// Optional is set if the command starts without it if From does not exist.
	Optional bool
}

// staging is the folder of the new root in which binds are mounted until they are moved to their targets.
const staging = "/.slipway"

// A source is a bind whose file was opened in the root of the system.
type source struct {
	Bind
	fd    int
	isDir bool
	// staged is where it is mounted before it is moved.
	staged string
}

// A newSystem builds a root. Its methods after enter resolve names in the new root, from which the root of the system was unmounted, so that symbolic
// links of an image cannot lead out of it.
type newSystem struct {
	*Root
	// asRoot is set if the command runs as root, with or without a user namespace: it owns the devices and settings of the system.
	asRoot bool
	// needsFUSE is set if FUSE is mounted in the new root.
	needsFUSE bool
	sources   []source
	// bound are the folders of the system, own those of the image that are in memory, and empty those of the command.
	bound, own, empty []string
}

// enterRoot makes c.Root the root of this namespace, with mount at the prefix; the function is nil for no mount.
func enterRoot(c Command, mount func(prefix string) error) error {
	s := &newSystem{Root: c.Root, asRoot: os.Getuid() == 0, needsFUSE: mount != nil && !c.Attach}
	defer s.close()
	if err := separate(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	if err := s.enter(c.Processes); err != nil {
		return err
	}
	if err := s.fill(); err != nil {
		return err
	}
	if mount != nil {
		at, err := s.point(c.Prefix, true)
		if err != nil {
			return err
		}
		s.bound = append(s.bound, at)
		if err := mount(at); err != nil {
			return err
		}
	}
	return s.seal()
}

func (s *newSystem) close() {
	for _, one := range s.sources {
		_ = unix.Close(one.fd)
	}
}

// open opens what is bound, before the mounts of the new root can hide it.
func (s *newSystem) open() error {
	for _, b := range s.Binds {
		fd, err := unix.Open(b.From, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil && b.Optional {
			continue
		}
		var st unix.Stat_t
		if err == nil {
			s.sources = append(s.sources, source{Bind: b, fd: fd})
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			return &fs.PathError{Op: "binding", Path: b.From, Err: err}
		}
		s.sources[len(s.sources)-1].isDir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return nil
}

// enter builds the root in memory, with the entries of the folder and those of the system, changes to it, and unmounts the root of the system.
func (s *newSystem) enter(ownProcesses bool) error {
	base := spareFolder("")
	if base == "" {
		return errors.New("the system has no folder for a new root")
	}
	list, err := openEntries(s.Folder, "")
	if err != nil {
		return err
	}
	defer list.close()
	list = slices.DeleteFunc(list, func(e entry) bool {
		if slices.Contains(systemFolders(), "/"+e.name) || "/"+e.name == staging {
			_ = unix.Close(e.fd)
			return true
		}
		return false
	})
	if err := mountTmpfs(base); err != nil {
		return err
	}
	for _, e := range list {
		if err := e.showReadOnly(filepath.Join(base, e.name)); err != nil {
			return fmt.Errorf("showing %s of the image: %w", e.name, err)
		}
	}
	for _, dir := range systemFolders() {
		if err := s.showSystem(dir, base+dir, dir == "/proc" && ownProcesses); err != nil {
			return err
		}
	}
	s.own = append(s.own, "/")
	return s.pivot(base)
}

// pivot changes the root to base. The binds are mounted in the folder for them while the root of the system exists, because what was unmounted
// cannot be bound. No name of the image is resolved before it was unmounted: a link could lead to files of the system.
func (s *newSystem) pivot(base string) error {
	const old = staging + "/system"
	if err := errors.Join(os.Mkdir(base+staging, 0o700), os.Mkdir(base+old, 0o700)); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.PivotRoot(base, base+old); err != nil {
		return fmt.Errorf("changing the root (which no kernel can if the root is an initramfs): %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	for i := range s.sources {
		if err := s.sources[i].stage(filepath.Join(staging, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the root of the system: %w", err)
	}
	if err := os.Remove(old); err != nil {
		return fmt.Errorf("unmounting the root of the system: %w", err)
	}
	s.bound = append(s.bound, staging)
	return nil
}

// stage mounts a bind at a new path.
func (one *source) stage(at string) error {
	if err := newMountPoint(at, one.isDir); err != nil {
		return fmt.Errorf("binding %s: %w", one.From, err)
	}
	if err := unix.Mount(descriptorPath(one.fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return denied(fmt.Errorf("binding %s at %s: %w", one.From, one.To, err))
	}
	one.staged = at
	return nil
}

// newMountPoint creates a folder or file at which something is mounted.
func newMountPoint(at string, isDir bool) error {
	if isDir {
		return os.Mkdir(at, 0o700)
	}
	return os.WriteFile(at, nil, 0o600)
}

// fill makes everything visible that the command has besides the image. Binds come after empty folders, which would hide those in them.
func (s *newSystem) fill() error {
	for _, dir := range s.Empty {
		at, err := s.point(dir, true)
		if err != nil {
			return err
		}
		if err := unix.Mount("slipway", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
			return denied(fmt.Errorf("mounting a tmpfs at %s: %w", dir, err))
		}
		s.empty = append(s.empty, at)
	}
	for _, one := range s.sources {
		if err := s.bind(one); err != nil {
			return err
		}
	}
	for path, content := range s.Files {
		if err := s.replace(path, content); err != nil {
			return fmt.Errorf("replacing %s: %w", path, err)
		}
	}
	return nil
}

func (s *newSystem) bind(one source) error {
	at, err := s.point(one.To, one.isDir)
	if err != nil {
		return err
	}
	if err := unix.Mount(one.staged, at, "", unix.MS_MOVE, ""); err != nil {
		return denied(fmt.Errorf("binding %s at %s: %w", one.From, one.To, err))
	}
	s.bound = append(s.bound, at)
	if one.ReadOnly {
		if err := protectAll(at); err != nil {
			return err
		}
	}
	return os.Remove(one.staged) // an empty folder or file of this root
}

func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// replace shows a file with another content.
func (s *newSystem) replace(path string, content []byte) error {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // the image has no such file
	}
	if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() || slices.ContainsFunc(s.bound, func(b string) bool { return isBelow(at, b) }) {
		return err
	}
	f, err := os.CreateTemp("/", ".slipway-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		if err = unix.Mount(f.Name(), at, "", unix.MS_BIND, ""); err == nil {
			err = protect(at, unix.MS_NOSUID|unix.MS_NODEV)
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// point returns the path of an existing file or folder at which something is mounted, without symbolic links. One that does not exist is
// created in memory: the image cannot be changed.
func (s *newSystem) point(to string, isDir bool) (string, error) {
	at, err := filepath.EvalSymlinks(to)
	if err == nil && isBelow(at, staging) {
		return "", fmt.Errorf("%s leads out of the root of the command", to)
	}
	if err != nil {
		at, err = s.create(filepath.Clean(to), isDir)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(at)
	}
	if err != nil {
		return "", fmt.Errorf("creating %s in the root of the command: %w", to, err)
	}
	if info.IsDir() != isDir {
		return "", fmt.Errorf("%s is a folder in one place, and a file in the other", to)
	}
	return at, nil
}

func (s *newSystem) create(to string, isDir bool) (string, error) {
	parent := filepath.Dir(to)
	for !isFolder(parent) {
		parent = filepath.Dir(parent)
	}
	name := firstOf(parent, to)
	rest, err := filepath.Rel(parent, to)
	if err != nil {
		return "", err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return "", err
	}
	if i := slices.IndexFunc(s.bound, func(b string) bool { return isBelow(parent, b) }); i >= 0 {
		return "", fmt.Errorf("%s does not exist in %s of the system", to, s.bound[i])
	}
	at := filepath.Join(parent, rest)
	if !slices.ContainsFunc(s.own, func(o string) bool { return o == parent }) && unix.Access(parent, unix.W_OK) != nil {
		if err := s.copyInMemory(parent, name); err != nil {
			return "", err
		}
	} else if info, err := os.Lstat(filepath.Join(parent, name)); err == nil && info.Mode()&fs.ModeSymlink != 0 { // its target does not exist
		if err := os.Remove(filepath.Join(parent, name)); err != nil {
			return "", err
		}
	}
	if isDir {
		return at, os.MkdirAll(at, 0o755) //nolint:gosec // as those of the system
	}
	return at, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)) //nolint:gosec // as those of the system
}

// copyInMemory replaces a folder of the image by one in memory with the same entries, but the one called except.
func (s *newSystem) copyInMemory(dir, except string) error {
	list, err := openEntries(dir, except)
	if err != nil {
		return err
	}
	defer list.close()
	if err := mountTmpfs(dir); err != nil {
		return err
	}
	for _, e := range list {
		if err := e.showReadOnly(filepath.Join(dir, e.name)); err != nil {
			return fmt.Errorf("showing %s of the image: %w", e.name, err)
		}
	}
	s.own = append(s.own, dir)
	return nil
}

// seal makes what is in memory read-only.
func (s *newSystem) seal() error {
	if err := os.Remove(staging); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	for _, dir := range s.own {
		isHidden := func(b string) bool { return isBelow(dir, b) } // by what is mounted there or above
		if !slices.ContainsFunc(s.bound, isHidden) && !slices.ContainsFunc(s.empty, isHidden) {
			if err := protect(dir, unix.MS_NOSUID|unix.MS_NODEV); err != nil {
				return err
			}
		}
	}
	return nil
}

func isBelow(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// showReadOnly makes an entry of an image appear at another path.
func (e entry) showReadOnly(to string) error {
	if err := e.show(to); err != nil {
		return err
	}
	if e.fd < 0 { // a symbolic link
		return nil
	}
	return protect(to, unix.MS_NOSUID|unix.MS_NODEV)
}

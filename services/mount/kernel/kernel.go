// Package kernel mounts environments as EROFS in the kernel. That needs root, Linux 6.12 or later, and an environment that is complete
// in the cache; no process stays.
package kernel

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/erofs"
)

// ErrUntrusted is returned for files that other users than root can change.
var ErrUntrusted = errors.New("the file is not trusted")

// Available reports whether the kernel has EROFS, or returns why not.
func Available() error {
	if os.Getuid() != 0 {
		return errors.New("only root may mount EROFS")
	}
	fd, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the kernel has no EROFS: %w", err)
	}
	return unix.Close(fd)
}

// Mount returns a detached mount of an index with one file for each device. It verifies the tree of the index first: the kernel reads
// it as root. Only root may be able to change the files, which are mounted by their descriptors.
func Mount(index string, devices []string) (*os.File, error) {
	x, err := openIndex(index)
	if err != nil {
		return nil, err
	}
	defer func() { _ = x.Close() }()
	sizes, err := verify(x)
	if err != nil {
		return nil, fmt.Errorf("the index %s: %w", index, err)
	}
	if len(sizes) != len(devices) {
		return nil, fmt.Errorf("the index %s has %d packages, and %d files are mounted", index, len(sizes), len(devices))
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for i, path := range devices {
		f, size, err := openFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		if uint64(size) != sizes[i] {
			return nil, fmt.Errorf("the package %s has %d bytes, and %d in the index", path, size, sizes[i])
		}
	}
	return mount(x, files)
}

// openFile opens a file that only root can change, and returns its size.
func openFile(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("opening a file of the environment: %w", err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != 0 || st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0) {
		err = fmt.Errorf("%w: %s must be a file that only root can change", ErrUntrusted, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, st.Size, nil
}

func openIndex(path string) (*os.File, error) {
	f, _, err := openFile(path)
	return f, err
}

// verify verifies the tree of an index, and returns the sizes of its devices.
func verify(index *os.File) ([]uint64, error) {
	info, err := index.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, errors.New("it is empty")
	}
	b, err := unix.Mmap(int(index.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(b) }()
	x, err := erofs.Open(b)
	if err != nil {
		return nil, err
	}
	var sizes []uint64
	for _, d := range x.Devices() {
		sizes = append(sizes, d.Size)
	}
	return sizes, x.Check()
}

func mount(index *os.File, devices []*os.File) (*os.File, error) {
	fd, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("the kernel has no EROFS: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := configure(fd, index, devices); err != nil {
		return nil, fmt.Errorf("mounting EROFS: %w%s", err, messages(fd))
	}
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("mounting EROFS: %w", err)
	}
	return os.NewFile(uintptr(m), "mount"), nil
}

// pathOf returns a path of an open file, which cannot be replaced.
func pathOf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func configure(fd int, index *os.File, devices []*os.File) error {
	if err := unix.FsconfigSetString(fd, "source", pathOf(index)); err != nil {
		return err
	}
	for _, d := range devices {
		if err := unix.FsconfigSetString(fd, "device", pathOf(d)); err != nil {
			return err
		}
	}
	// Files are read without a second copy in the page cache. Kernels before 6.14 lack the option.
	if err := unix.FsconfigSetFlag(fd, "directio"); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return unix.FsconfigCreate(fd)
}

// messages returns the messages of the kernel about a mount.
func messages(fd int) string {
	var out strings.Builder
	b := make([]byte, 1024)
	for {
		n, err := unix.Read(fd, b)
		if err != nil || n <= 0 {
			return out.String()
		}
		out.WriteString(": " + strings.TrimSpace(string(b[:n])))
	}
}

// Attach mounts a detached mount at a folder of this namespace.
func Attach(tree *os.File, folder string) error {
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, folder, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching the mount at %s: %w", folder, err)
	}
	return nil
}

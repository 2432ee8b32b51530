package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// systemFolders returns the folders that are those of the system.
func systemFolders() []string { return []string{"/proc", "/sys", "/dev"} }

// showSystem shows a folder of the system at a path, or new processes if the command has a namespace for them.
func (s *newSystem) showSystem(dir, at string, isNew bool) error {
	if err := os.Mkdir(at, 0o700); err != nil { // below the mount
		return fmt.Errorf("showing %s: %w", dir, err)
	}
	if dir == "/dev" && s.asRoot {
		s.own = append(s.own, dir)
		return s.showDevices(dir, at)
	}
	s.bound = append(s.bound, dir)
	if isNew {
		if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return denied(fmt.Errorf("mounting /proc for a namespace of processes, which a container with a masked /proc does not allow; run without --pid: %w", err))
		}
	} else if err := showAll(dir, at); err != nil {
		return err
	}
	switch {
	case !s.asRoot:
		return nil
	case dir == "/sys":
		return protectSystem(dir, at)
	}
	return protectSettings(at)
}

// protectSettings makes the parts of /proc read-only that change the system, which are those of containers of runc.
func protectSettings(proc string) error {
	for _, name := range []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		one := filepath.Join(proc, name)
		if _, err := os.Lstat(one); err != nil {
			continue // this kernel has no such file
		}
		if err := showAll(one, one); err != nil {
			return err
		}
		if err := protectSystem(one, one); err != nil {
			return err
		}
	}
	return nil
}

// showAll binds a folder or file with all mounts below it.
func showAll(from, at string) error {
	if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return denied(fmt.Errorf("showing %s: %w", from, err))
	}
	return nil
}

// protectSystem makes a folder of the system read-only. If the kernel cannot do this for the mounts below it, it is shown without them.
func protectSystem(from, at string) error {
	err := protectAll(at)
	if !errors.Is(err, errRecursive) {
		return err
	}
	if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("showing %s: %w", from, err)
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return denied(fmt.Errorf("showing %s: %w", from, err))
	}
	return protect(at, 0)
}

// showDevices creates a folder with the devices that every container has. Root could change the disks with those of the system. Further ones can be bound
// there.
func (s *newSystem) showDevices(from, at string) error {
	if err := mountTmpfs(at); err != nil {
		return err
	}
	names := []string{"null", "zero", "full", "random", "urandom", "tty"}
	if s.needsFUSE {
		names = append(names, "fuse")
	}
	for _, name := range names {
		device, to := filepath.Join(from, name), filepath.Join(at, name)
		if _, err := os.Lstat(device); err != nil {
			continue // the system has none
		}
		if err := newMountPoint(to, false); err != nil {
			return fmt.Errorf("showing %s: %w", device, err)
		}
		if err := unix.Mount(device, to, "", unix.MS_BIND, ""); err != nil {
			return denied(fmt.Errorf("showing %s: %w", device, err))
		}
	}
	for link, target := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, filepath.Join(at, link)); err != nil {
			return fmt.Errorf("creating the folder of devices: %w", err)
		}
	}
	for _, one := range []struct{ name, kind, options string }{{"pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"}, {"shm", "tmpfs", "mode=1777"}} {
		to := filepath.Join(at, one.name)
		if err := newMountPoint(to, true); err != nil {
			return fmt.Errorf("creating the folder of devices: %w", err)
		}
		flags := uintptr(unix.MS_NOSUID | unix.MS_NOEXEC)
		if one.kind == "tmpfs" {
			flags = unix.MS_NOSUID | unix.MS_NODEV
		}
		if err := unix.Mount("slipway", to, one.kind, flags, one.options); err != nil {
			return denied(fmt.Errorf("mounting %s at %s: %w", one.kind, filepath.Join(from, one.name), err))
		}
	}
	return nil
}

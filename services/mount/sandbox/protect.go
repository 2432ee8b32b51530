package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// protect makes a mount read-only, with further flags. In a user namespace, its other flags must stay as they are.
func protect(at string, flags uintptr) error {
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return &fs.PathError{Op: "protecting", Path: at, Err: err}
	}
	for _, one := range []struct{ have, set uintptr }{
		{0x2, unix.MS_NOSUID}, {0x4, unix.MS_NODEV}, {0x8, unix.MS_NOEXEC}, {0x400, unix.MS_NOATIME}, {0x800, unix.MS_NODIRATIME}, {0x1000, unix.MS_RELATIME}, // ST_NOSUID and so on
	} {
		if uintptr(st.Flags)&one.have != 0 {
			flags |= one.set
		}
	}
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return denied(fmt.Errorf("making %s read-only: %w", at, err))
	}
	return nil
}

// protectAll makes a mount and all mounts below it read-only. Before Linux 5.12, the kernel can do this only for one mount: others are an error.
func protectAll(at string) error {
	err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOSYS) {
		return denied(fmt.Errorf("making %s read-only: %w", at, err))
	}
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("making %s read-only: %w", at, err)
	}
	if below := mountBelow(raw, at); below != "" {
		return fmt.Errorf("making %s read-only: %w: %s is mounted below it", at, errRecursive, below)
	}
	return protect(at, 0)
}

// errRecursive is returned before Linux 5.12.
var errRecursive = errors.New("this kernel cannot make several mounts read-only; install Linux 5.12 or later, or bind folders without further mounts")

// mountBelow returns the first mount below a path in a list of the kernel, /proc/self/mountinfo; "" for none.
func mountBelow(list []byte, at string) string {
	for line := range bytes.Lines(list) {
		fields := bytes.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if path := unescape(fields[4]); path != at && isBelow(path, at) {
			return path
		}
	}
	return ""
}

// unescape replaces the octal codes of a path, e.g. of a space.
func unescape(raw []byte) string {
	var out []byte
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' && i+3 < len(raw) {
			if n, err := strconv.ParseUint(string(raw[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, raw[i])
	}
	return string(out)
}

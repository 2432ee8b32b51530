package fuse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoDevice is returned by Mount if /dev/fuse cannot be opened.
var ErrNoDevice = errors.New("/dev/fuse cannot be opened")

// Available reports whether /dev/fuse can be opened, or returns why not.
func Available() error {
	fd, err := openDevice()
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func openDevice() (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	return fd, nil
}

// Mount mounts a file system at dir and returns its connection, for NewServer. It needs the rights to mount in the
// current mount namespace. With shared, all users of the machine have access to the files.
func Mount(dir string, uid, gid int, shared bool) (fd int, err error) {
	if fd, err = openDevice(); err != nil {
		return -1, err
	}
	a := Arguments(fd, uid, gid, shared)
	if err := unix.Mount(a.Source, dir, a.Kind, a.Flags, a.Data); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("mounting FUSE at %s: %w", dir, err)
	}
	return fd, nil
}

// MountArguments are the arguments of the system call mount, except for the folder.
type MountArguments struct {
	Source, Kind, Data string
	Flags              uintptr
}

// Arguments returns the arguments with which Mount mounts the connection fd.
func Arguments(fd, uid, gid int, shared bool) MountArguments {
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions,max_read=%d", fd, uid, gid, maxRead)
	if shared {
		data += ",allow_other"
	}
	return MountArguments{Source: "slipway", Kind: "fuse.slipway", Data: data, Flags: unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV}
}

// Fusermount mounts a file system at dir with the setuid program fusermount3, for users without the rights to mount.
func Fusermount(dir string) (fd int, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("creating a socket for fusermount3: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "fusermount3"), os.NewFile(uintptr(ends[1]), "fusermount3")
	defer func() { _ = ours.Close() }()
	options := fmt.Sprintf("ro,nosuid,nodev,default_permissions,max_read=%d,fsname=slipway,subtype=slipway", maxRead)
	cmd := exec.CommandContext(context.Background(), "fusermount3", "-o", options, "--", dir)
	cmd.ExtraFiles, cmd.Env = []*os.File{theirs}, append(os.Environ(), "_FUSE_COMMFD=3")
	out, err := cmd.CombinedOutput()
	_ = theirs.Close()
	if err != nil {
		return -1, fmt.Errorf("fusermount3: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return Receive(int(ours.Fd()))
}

// ErrNoDescriptor is returned by Receive for a message without a descriptor.
var ErrNoDescriptor = errors.New("no connection was received")

// Receive receives a file descriptor from a socket.
func Receive(socket int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	read, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err == nil && read == 0 {
		err = io.EOF
	}
	if err != nil {
		return -1, fmt.Errorf("receiving the connection: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(ErrNoDescriptor, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(ErrNoDescriptor, err)
	}
	return fds[0], nil
}

// Unmount unmounts a file system of Mount or Fusermount. Open files stay usable until they are closed.
func Unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if !errors.Is(err, unix.EPERM) {
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", dir, err)
		}
		return nil
	}
	if out, err := exec.CommandContext(context.Background(), "fusermount3", "-u", "-z", "--", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unmounting %s with fusermount3: %w: %s", dir, err, strings.TrimSpace(string(out)))
	}
	return nil
}

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/fuse"
	"slipway.dev/services/mount/nofile"
)

// startDirectly starts a command with the root of the system. The child mounts the environment with a script of system calls and becomes the
// command, so that this program is not started again. It reports false if it does not support the command: the program is started then.
func (p *Process) startDirectly(c Command, link, status *os.File) (ok bool, err error) {
	if c.Root != nil || c.Processes {
		return false, nil
	}
	folder, ok := folderOf(c.Prefix)
	if !ok {
		return false, nil
	}
	s := &script{}
	defer s.close()
	s.enterNamespaces(c.User)
	if err := s.prepare(c.Prefix, folder); err != nil {
		return false, err
	}
	if c.Attach {
		s.add("attaching the mount at "+c.Prefix, unix.SYS_MOVE_MOUNT, link.Fd(), s.text(""), s.here(), s.text(c.Prefix), unix.MOVE_MOUNT_F_EMPTY_PATH)
		s.fail(errDenied)
	} else if err := s.connect(c.Prefix, link); err != nil {
		return false, err
	}
	if ok, err := s.restoreLimit(); !ok || err != nil {
		return false, err
	}
	if err := s.clearCapabilities(c.User); err != nil {
		return false, err
	}
	if err := s.execute(c); err != nil {
		return false, err
	}
	flags := uintptr(unix.CLONE_NEWNS)
	if c.User {
		flags |= unix.CLONE_NEWUSER
	}
	p.script, p.name = s, c.Args[0]
	if p.process, err = s.fork(flags, int(status.Fd())); err != nil {
		return false, StartError(err)
	}
	return true, nil
}

// folderOf returns the folder that must become a tmpfs for a prefix that does not exist; "" for none. It reports false if the root must be replaced.
func folderOf(prefix string) (string, bool) {
	if prefix == "" {
		return "", false
	}
	if isFolder(prefix) {
		return "", true
	}
	folder := filepath.Dir(prefix)
	for !isFolder(folder) {
		folder = filepath.Dir(folder)
	}
	return folder, folder != "/"
}

// enterNamespaces makes the child the same user in its namespace, and separates its mounts from those of the system. It ends with its parent.
func (s *script) enterNamespaces(user bool) {
	s.add("starting the command", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	s.add("starting the command", unix.SYS_GETPPID).result = uintptr(os.Getpid())
	if user {
		s.write("creating the user namespace", "/proc/self/setgroups", "deny")
		s.write("creating the user namespace", "/proc/self/uid_map", fmt.Sprintf("%d %d 1", os.Getuid(), os.Getuid()))
		s.write("creating the user namespace", "/proc/self/gid_map", fmt.Sprintf("%d %d 1", os.Getgid(), os.Getgid()))
	}
	s.mount("separating the mounts of the namespace", "", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
}

// prepare makes the prefix a folder, as Prepare. The folder becomes a tmpfs with its entries, which is built elsewhere and moved there.
func (s *script) prepare(prefix, folder string) error {
	if folder == "" {
		return nil
	}
	base := spareFolder(folder)
	if base == "" {
		return errors.New("the system has no folder for a tmpfs")
	}
	list, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("reading %s: %w", folder, err)
	}
	s.mount("mounting a tmpfs for "+folder, "slipway", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m")
	for _, e := range list {
		if e.Name() == firstOf(folder, prefix) { // no folder, e.g. a link whose target does not exist
			continue
		}
		if err := s.show(filepath.Join(folder, e.Name()), filepath.Join(base, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	rest, err := filepath.Rel(folder, prefix)
	if err != nil {
		return err
	}
	at := base
	for name := range strings.SplitSeq(rest, "/") {
		at = filepath.Join(at, name)
		s.add("creating "+prefix+" in the namespace", unix.SYS_MKDIRAT, s.here(), s.text(at), 0o755)
	}
	s.mount("mounting a tmpfs at "+folder, base, folder, "", unix.MS_MOVE, "")
	return nil
}

// show makes an entry appear at another path. One that was deleted meanwhile is empty there.
func (s *script) show(from, to string, mode fs.FileMode) error {
	what := "showing " + from + " in the namespace"
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		s.add(what, unix.SYS_SYMLINKAT, s.text(target), s.here(), s.text(to))
		return nil
	case mode.IsDir():
		s.add(what, unix.SYS_MKDIRAT, s.here(), s.text(to), 0o700)
	default:
		s.open(what, to, unix.O_CREAT|unix.O_WRONLY, 0o600)
		s.closeKept(what)
	}
	s.mount(what, from, to, "", unix.MS_BIND|unix.MS_REC, "").tolerated = missing
	return nil
}

// connect mounts FUSE at the prefix and sends the connection to this process. The device must be opened in the user namespace, and the number of its
// descriptor is an option of the mount.
func (s *script) connect(prefix string, socket *os.File) error {
	free, err := unix.FcntlInt(socket.Fd(), unix.F_DUPFD_CLOEXEC, firstDescriptor)
	if err != nil {
		return fmt.Errorf("passing on a descriptor: %w", err)
	}
	s.descriptor = os.NewFile(uintptr(free), "connection")
	device := s.descriptor.Fd()
	s.open("/dev/fuse", "/dev/fuse", unix.O_RDWR, 0)
	s.fail(fuse.ErrNoDevice)
	s.add("passing on the connection", unix.SYS_DUP3, 0, device, unix.O_CLOEXEC).kept = true
	s.closeKept("passing on the connection")
	m := fuse.Arguments(int(device), os.Getuid(), os.Getgid(), false)
	s.mount("mounting FUSE at "+prefix, m.Source, prefix, m.Kind, m.Flags, m.Data)
	rights, one := unix.UnixRights(int(device)), []byte{0}
	part := &unix.Iovec{Base: &one[0]}
	part.SetLen(len(one))
	message := &unix.Msghdr{Iov: part, Control: &rights[0]}
	message.SetIovlen(1)
	message.SetControllen(len(rights))
	s.add("sending the connection", unix.SYS_SENDMSG, socket.Fd(), s.pointer(unsafe.Pointer(message), message), 0) //nolint:gosec // an argument of a system call
	s.add("sending the connection", unix.SYS_CLOSE, device)
	return nil
}

// restoreLimit restores the limit of open files, which Go has raised. It reports false if the limit is unknown.
func (s *script) restoreLimit() (ok bool, err error) {
	soft, hard, ok := nofile.Original()
	if !ok {
		return false, nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return false, fmt.Errorf("reading the limit of open files: %w", err)
	}
	if now.Max != hard { // another program has changed it
		return true, nil
	}
	was := &[2]uint64{soft, hard}
	s.add("restoring the limit of open files", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, s.pointer(unsafe.Pointer(was), was)) //nolint:gosec // an argument of a system call
	return true, nil
}

// clearCapabilities clears the capabilities of the child in a user namespace; root keeps its own, but passes none on.
func (s *script) clearCapabilities(user bool) error {
	const what = "clearing capabilities"
	if user && os.Getuid() == 0 {
		s.add(what, unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureNoRoot)
	}
	s.add(what, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	head, data := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &[2]unix.CapUserData{}
	if !user {
		if err := unix.Capget(head, &data[0]); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		data[0].Inheritable, data[1].Inheritable = 0, 0
	}
	s.add(what, unix.SYS_CAPSET, s.pointer(unsafe.Pointer(head), head), s.pointer(unsafe.Pointer(data), data)) //nolint:gosec // arguments of a system call
	return nil
}

// execute executes the command in its working directory. Without a slash in its name, it is the first program in the PATH of its environment.
func (s *script) execute(c Command) error {
	argv, err := syscall.SlicePtrFromStrings(c.Args)
	if err != nil {
		return fmt.Errorf("%w: an argument has a zero byte", errCommand)
	}
	env, err := syscall.SlicePtrFromStrings(c.Env)
	if err != nil {
		return fmt.Errorf("%w: a variable has a zero byte", errCommand)
	}
	if c.Dir != "" {
		s.add("entering the working directory: "+c.Dir, unix.SYS_CHDIR, s.text(c.Dir))
	}
	become := func(path string) {
		s.add(path, unix.SYS_EXECVE, s.text(path), s.pointer(unsafe.Pointer(unsafe.SliceData(argv)), argv), s.pointer(unsafe.Pointer(unsafe.SliceData(env)), env)) //nolint:gosec // arguments of a system call
		s.fail(errCommand)
	}
	name := c.Args[0]
	if strings.Contains(name, "/") {
		become(name)
		return nil
	}
	for _, dir := range filepath.SplitList(valueOf(c.Env, "PATH")) {
		path := filepath.Join(dir, name)
		executable := s.add(path, unix.SYS_FACCESSAT, s.here(), s.text(path), unix.X_OK)
		executable.tolerated, executable.otherwise = anyError, 2
		isDir := s.open(path, path, unix.O_PATH|unix.O_DIRECTORY, 0)
		isDir.tolerated, isDir.then = anyError, 1
		become(path)
	}
	return nil
}

// spareFolder returns a folder of the system at which a file system is built before it is moved to the folder except; "" for none. Neither is
// below the other: their files would be hidden.
func spareFolder(except string) string {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/mnt", "/home"} {
		if isFolder(dir) && (except == "" || !isBelow(dir, except) && !isBelow(except, dir)) {
			return dir
		}
	}
	return ""
}

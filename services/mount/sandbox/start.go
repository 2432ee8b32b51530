// Package sandbox runs a command in a mount namespace in which an environment is mounted.
//
// The namespace needs no privilege: the command runs as the same user in a user namespace of its own, without capabilities.
// Root only gets a mount namespace. A Go program cannot enter namespaces. For commands with the root of the system, Start forks a child that runs
// no Go code, but a list of system calls. For others, the program starts itself again in the namespaces: the main function calls Enter if Entered
// returns true.
//
// The process in the namespaces either attaches a mount that it was given, or mounts FUSE and sends the connection
// to its parent, which serves it. So the process that serves files never executes any; see package fuse.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/fuse"
)

// marker is the name under which the program starts itself.
const marker = "slipway-sandbox"

// A Command is what a sandbox runs.
type Command struct {
	// Prefix is the folder at which the environment is mounted; "" for no environment.
	Prefix string
	// Root is the root file system; nil for that of the system.
	Root *Root
	// Processes is set if the command has a namespace of processes, which end with it.
	Processes bool
	// Args are the program and its arguments, and Env is its environment.
	Args, Env []string
	// Dir is the working directory.
	Dir string
	// Attach is set if the environment is an existing mount.
	Attach bool
	// User is set if the command has a user namespace of its own.
	User bool
}

// A Process is a running command.
type Process struct {
	process *os.Process
	name    string         // of the command
	script  *script        // of a child that was forked; nil for this program
	link    *os.File       // the socket from which the connection is received
	status  *os.File       // the pipe with the error of a command that could not be started
	signals chan os.Signal // for the command
}

// ErrNamespace is returned if the system does not allow the namespaces.
var ErrNamespace = errors.New("this system does not allow user namespaces")

// Start starts the command. If tree is not nil, it is a mount that is attached in the namespace. Otherwise FUSE is mounted at the prefix, if it has
// one, and the caller must serve the connection that Connection returns.
//
// The calling goroutine stays locked to its thread: the command ends with that thread.
func Start(c Command, tree *os.File) (*Process, error) {
	c.Attach, c.User = tree != nil, needsUser()
	p := &Process{}
	theirs := tree
	if tree == nil {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("creating a socket: %w", err)
		}
		p.link, theirs = os.NewFile(uintptr(ends[0]), "sandbox"), os.NewFile(uintptr(ends[1]), "sandbox")
		defer func() { _ = theirs.Close() }()
	}
	var status *os.File
	var err error
	if p.status, status, err = os.Pipe(); err == nil {
		defer func() { _ = status.Close() }()
		p.listen()
		runtime.LockOSThread()
		err = p.start(c, theirs, status)
	}
	if err != nil {
		signal.Stop(p.signals)
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// start starts the command with its mount, or the socket for the connection, and the pipe for an error.
func (p *Process) start(c Command, link, status *os.File) error {
	if ok, err := p.startDirectly(c, link, status); ok || err != nil {
		return err
	}
	spec, err := Pass(c)
	if err != nil {
		return err
	}
	defer func() { _ = spec.Close() }()
	cmd := self(c.User)
	if c.Processes {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
	}
	return p.startSelf(cmd, spec, link, status)
}

// startSelf starts this program, which inherits files.
func (p *Process) startSelf(cmd *exec.Cmd, files ...*os.File) error {
	for _, f := range files {
		theirs, err := inherit(f)
		if err != nil {
			return err
		}
		defer func() { _ = theirs.Close() }()
		cmd.Args = append(cmd.Args, strconv.Itoa(int(theirs.Fd())))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return StartError(err)
	}
	p.process = cmd.Process
	return nil
}

func (p *Process) close() error {
	var errs []error
	for _, f := range []*os.File{p.link, p.status} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// inherited returns the files of start: the Command; a mount, or the socket to which the connection is sent; the pipe for an error.
func inherited() (spec, link, status *os.File, err error) {
	var all [3]*os.File
	if len(os.Args) != 1+len(all) {
		return nil, nil, nil, errors.New("the process was not started by slipway")
	}
	for i, arg := range os.Args[1:] {
		fd, err := strconv.Atoi(arg)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("a descriptor: %w", err)
		}
		unix.CloseOnExec(fd)
		all[i] = os.NewFile(uintptr(fd), "inherited")
	}
	return all[0], all[1], all[2], nil
}

// StartError explains why a process with new namespaces could not be started.
func StartError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EUSERS), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", ErrNamespace, err)
	}
	return fmt.Errorf("starting the command: %w", err)
}

// needsUser reports whether this process needs a user namespace to mount: it lacks the capability. Root lacks it in most containers.
func needsUser() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) != nil || data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0
}

// self returns this program, to be started in new namespaces as the same user.
func self(user bool) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Args = []string{marker}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if user {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return cmd
}

// Detach makes a command that starts this program run in a session of its own and, with namespaces, in new namespaces, in which
// it may mount.
func Detach(cmd *exec.Cmd, namespaces bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if namespaces {
		cmd.SysProcAttr = self(needsUser()).SysProcAttr
	}
	cmd.SysProcAttr.Setsid = true
}

// Pass returns a file with a value as JSON, for another process of this program.
func Pass(value any) (*os.File, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding the command: %w", err)
	}
	if len(b) > limits.AgentMessage {
		return nil, fmt.Errorf("the command and its environment have %d bytes, and the limit is %d", len(b), limits.AgentMessage)
	}
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("passing on the command: %w", err)
	}
	f := os.NewFile(uintptr(fd), "command")
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("passing on the command: %w", err)
	}
	return f, nil
}

// Receive decodes a value of Pass and closes the file.
func Receive(f *os.File, value any) error {
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, limits.AgentMessage+1))
	if err == nil && len(b) > limits.AgentMessage {
		err = errors.New("it is too long")
	}
	if err == nil {
		err = json.Unmarshal(b, value)
	}
	if err != nil {
		return fmt.Errorf("reading the command: %w", err)
	}
	return nil
}

// Kill ends the command and waits for its end.
func (p *Process) Kill() {
	signal.Stop(p.signals)
	_ = p.process.Kill()
	_, _ = p.process.Wait()
	_ = p.status.Close()
}

// Connection returns the connection of the FUSE mount in the namespace. It must be called once, if Start got no mount.
func (p *Process) Connection() (int, error) {
	defer func() { _ = p.link.Close() }()
	fd, err := fuse.Receive(int(p.link.Fd()))
	if err != nil {
		return -1, fmt.Errorf("the process of the namespace has ended: %w", err)
	}
	return fd, nil
}

// Entered reports whether this process was started by Start or Check and must call Enter.
func Entered() bool {
	return len(os.Args) > 0 && (os.Args[0] == marker || os.Args[0] == probeMarker)
}

// Enter mounts the environment and becomes the command. It only returns the exit code of an error, which it has reported.
func Enter() int {
	runtime.LockOSThread()
	if os.Args[0] == probeMarker {
		if err := probe(); err != nil {
			fmt.Fprintln(os.Stderr, "slipway:", err)
			return 126
		}
		return 0
	}
	spec, link, status, err := inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, "slipway:", err)
		return 126
	}
	err = enter(spec, link)
	if code, ok := errors.AsType[ended](err); ok {
		return int(code)
	}
	if sendErr := Send(status, err); sendErr != nil {
		fmt.Fprintln(os.Stderr, "slipway:", err)
	}
	f := Describe(err)
	return f.code()
}

// enter only returns an error.
func enter(spec, link *os.File) error {
	var c Command
	err := Receive(spec, &c)
	if err != nil {
		return err
	}
	mount := func(at string) error { return denied(connect(int(link.Fd()), at)) }
	if c.Attach {
		mount = func(at string) error { return denied(attach(int(link.Fd()), at)) }
	}
	switch {
	case c.Root != nil && c.Prefix == "":
		err = enterRoot(c, nil)
	case c.Root != nil:
		err = enterRoot(c, mount)
	default:
		if err = Prepare(c.Prefix); err == nil {
			err = mount(c.Prefix)
		}
	}
	if err != nil {
		return err
	}
	_ = link.Close()
	return replace(c)
}

// attach mounts a detached mount at the prefix.
func attach(tree int, prefix string) error {
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, prefix, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching the mount at %s: %w", prefix, err)
	}
	return nil
}

// connect mounts FUSE at the prefix and sends the connection to the parent.
func connect(socket int, prefix string) error {
	fd, err := fuse.Mount(prefix, os.Getuid(), os.Getgid(), false)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("sending the connection: %w", err)
	}
	return nil
}

// clearCapabilities clears the capabilities that the command would inherit. Root, which is not in a user namespace, keeps its own.
func clearCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&head, &data[0])
}

// secureNoRoot makes an exec as root in a user namespace give no capabilities, for ever.
const secureNoRoot = 1<<0 | 1<<1

// replace becomes the command, without capabilities.
func replace(c Command) error {
	if c.User && os.Getuid() == 0 {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureNoRoot, 0, 0, 0); err != nil {
			return fmt.Errorf("clearing capabilities of root: %w", err)
		}
	}
	if err := clearCapabilities(); err != nil {
		return fmt.Errorf("clearing capabilities: %w", err)
	}
	if c.Root != nil {
		if err := confine(c.User); err != nil {
			return fmt.Errorf("clearing capabilities: %w", err)
		}
	}
	if c.Dir != "" {
		if err := os.Chdir(c.Dir); err != nil {
			return fmt.Errorf("entering the working directory: %w", err)
		}
	}
	path, err := lookPath(c.Args[0], c.Env)
	if err != nil {
		return err
	}
	if c.Processes {
		return supervise(path, c)
	}
	if err := unix.Exec(path, c.Args, c.Env); err != nil {
		return fmt.Errorf("%w: %s: %w", errCommand, path, err)
	}
	return nil
}

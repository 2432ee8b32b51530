package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/fuse"
)

// A call is a system call of a child process that runs no Go code: it only has the thread that was forked, so that it cannot
// allocate memory or switch goroutines.
type call struct {
	number uintptr
	args   [6]uintptr
	// keep is set if the result is kept for later calls, and kept if the first argument is the one that was kept last.
	keep, kept bool
	// result is what the call must return; 0 for anything.
	result uintptr
	// then is how many of the following calls are left out after a success, and otherwise after an error that is tolerated.
	then, otherwise int
	tolerated       toleration
}

// toleration is which errors of a call do not end the process.
type toleration uint8

const (
	noError toleration = iota
	missing
	anyError
)

// A script is the list of calls of a child, which ends with the execution of a program.
type script struct {
	calls []call
	// what describes each call for its error, and of is the kind of the error.
	what []string
	of   []error
	// memory is what arguments point to.
	memory []any
	// descriptor is a number that this process does not use otherwise, for the child; nil for none.
	descriptor *os.File
}

// close closes the descriptor.
func (s *script) close() {
	if s.descriptor != nil {
		_ = s.descriptor.Close()
	}
}

// add adds a call. The description is the start of its error.
func (s *script) add(what string, number uintptr, args ...uintptr) *call {
	c := call{number: number}
	copy(c.args[:], args)
	s.calls, s.what, s.of = append(s.calls, c), append(s.what, what), append(s.of, nil)
	return &s.calls[len(s.calls)-1]
}

// mount adds a call whose error may be that the system denies mounts.
func (s *script) mount(what, source, target, kind string, flags uintptr, data string) *call {
	c := s.add(what, unix.SYS_MOUNT, s.text(source), s.text(target), s.text(kind), flags, s.text(data))
	s.fail(errDenied)
	return c
}

// fail sets the kind of the error of the last call. With errDenied, it depends on the error.
func (s *script) fail(kind error) { s.of[len(s.of)-1] = kind }

// open adds calls that open a file and keep its descriptor.
func (s *script) open(what, path string, flags, mode int) *call {
	c := s.add(what, unix.SYS_OPENAT, s.here(), s.text(path), uintptr(flags|unix.O_CLOEXEC), uintptr(mode))
	c.keep = true
	return c
}

// closeKept adds a call that closes the descriptor that was kept last.
func (s *script) closeKept(what string) { s.add(what, unix.SYS_CLOSE).kept = true }

// write adds calls that write a file.
func (s *script) write(what, path, content string) {
	s.open(what, path, unix.O_WRONLY, 0)
	b := []byte(content)
	s.add(what, unix.SYS_WRITE, 0, s.pointer(unsafe.Pointer(unsafe.SliceData(b)), b), uintptr(len(b))).kept = true //nolint:gosec // an argument of a system call
	s.closeKept(what)
}

// here returns AT_FDCWD.
func (s *script) here() uintptr {
	here := unix.AT_FDCWD
	return uintptr(here)
}

// text returns the address of a string that ends with a zero; one that contains a zero is cut there.
func (s *script) text(v string) uintptr {
	b := append([]byte(v), 0)
	return s.pointer(unsafe.Pointer(unsafe.SliceData(b)), b) //nolint:gosec // an argument of a system call
}

// pointer returns an address in owner, which stays in memory as long as the script.
func (s *script) pointer(p unsafe.Pointer, owner any) uintptr {
	s.memory = append(s.memory, owner)
	return uintptr(p)
}

// A report is what a child writes if a call fails: its number and the error.
type report [2]uint32

// fork starts a process that performs the script. It writes the report of a call that fails to status.
//
// The caller is locked to its thread. All signals are blocked until the first calls of the child have restored their handlers, so that no handler of Go
// runs in the child.
func (s *script) fork(flags uintptr, status int) (*os.Process, error) {
	all, old := ^uint64(0), new(uint64)
	s.restoreSignals(old)
	failed := new(report)
	syscall.ForkLock.Lock()
	pid, errno := forkAndPerform(flags|uintptr(unix.SIGCHLD), s.calls, uintptr(status), failed, &all, old)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(s)
	if errno != 0 {
		return nil, errno
	}
	return os.FindProcess(int(pid))
}

// sigaction is the structure of the kernel; all zeros are the default.
type sigaction struct{ handler, flags, restorer, mask uint64 }

const ignored = 1 // SIG_IGN

// restoreSignals inserts the calls that give signals their usual effect before all others. Ignored ones stay ignored.
func (s *script) restoreSignals(mask *uint64) {
	var restore script
	usual := &sigaction{}
	for signal := range uintptr(65) {
		var now sigaction
		if signal == 0 || signal == uintptr(unix.SIGKILL) || signal == uintptr(unix.SIGSTOP) {
			continue
		}
		if _, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, signal, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0); errno != 0 || now.handler <= ignored { //nolint:gosec // an argument of a system call
			continue
		}
		restore.add("restoring signals", unix.SYS_RT_SIGACTION, signal, restore.pointer(unsafe.Pointer(usual), usual), 0, 8) //nolint:gosec // an argument of a system call
	}
	restore.add("restoring signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, restore.pointer(unsafe.Pointer(mask), mask), 0, 8) //nolint:gosec // an argument of a system call
	s.calls, s.what, s.of = append(restore.calls, s.calls...), append(restore.what, s.what...), append(restore.of, s.of...)
	s.memory = append(s.memory, restore.memory...)
}

// forkAndPerform forks. Nothing that it calls may grow the stack.
//
//go:nosplit
//go:noinline
//go:norace
func forkAndPerform(flags uintptr, calls []call, status uintptr, failed *report, all, old *uint64) (pid uintptr, errno syscall.Errno) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(all)), uintptr(unsafe.Pointer(old)), 8, 0, 0) //nolint:gosec // arguments of a system call
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		perform(calls, status, failed)
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(old)), 0, 8, 0, 0) //nolint:gosec // an argument of a system call
	return pid, errno
}

// perform performs calls, and ends the process when one fails.
//
//go:nosplit
//go:noinline
//go:norace
func perform(calls []call, status uintptr, failed *report) {
	var kept uintptr
	i, errno := 0, syscall.Errno(0)
	for i < len(calls) {
		c := &calls[i]
		first := c.args[0]
		if c.kept {
			first = kept
		}
		var result uintptr
		result, _, errno = syscall.RawSyscall6(c.number, first, c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if errno == 0 && c.result != 0 && result != c.result {
			break
		}
		if errno == 0 {
			if c.keep {
				kept = result
			}
			i += 1 + c.then
			continue
		}
		if c.tolerated == noError || c.tolerated == missing && errno != unix.ENOENT {
			break
		}
		i += 1 + c.otherwise
	}
	failed[0], failed[1] = uint32(i), uint32(errno)
	_, _, _ = syscall.RawSyscall6(unix.SYS_WRITE, status, uintptr(unsafe.Pointer(failed)), unsafe.Sizeof(*failed), 0, 0, 0) //nolint:gosec // an argument of a system call
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 126, 0, 0, 0, 0, 0)
	}
}

// failure returns the error of a report. If no call failed, no program was found.
func (s *script) failure(raw []byte, name string) error {
	if len(raw) != 8 {
		return fmt.Errorf("the process of the namespace wrote %q", raw)
	}
	r := report{binary.NativeEndian.Uint32(raw), binary.NativeEndian.Uint32(raw[4:])}
	i, errno := int(r[0]), syscall.Errno(r[1])
	if i >= len(s.calls) {
		return fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	err := fmt.Errorf("%s: %w", s.what[i], errno)
	switch kind := s.of[i]; {
	case kind == nil:
	case errors.Is(kind, errDenied):
		err = denied(err)
	case errors.Is(kind, fuse.ErrNoDevice), errors.Is(kind, errCommand):
		err = fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

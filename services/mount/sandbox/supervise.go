package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// An ended is the exit code of a command that supervise ran.
type ended int

// Error returns a description.
func (e ended) Error() string { return fmt.Sprintf("the command ended with the exit code %d", int(e)) }

// confine makes programs that are executed gain no privileges. In the root of an image, the system's root has only the capabilities that container engines leave: with others, it
// could change the files of the image in the cache, or the system.
func confine(user bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if user {
		return nil
	}
	keep := map[uintptr]bool{
		unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true, unix.CAP_KILL: true, unix.CAP_SETGID: true, unix.CAP_SETUID: true,
		unix.CAP_SETPCAP: true, unix.CAP_NET_BIND_SERVICE: true, unix.CAP_SYS_CHROOT: true, unix.CAP_AUDIT_WRITE: true, unix.CAP_SETFCAP: true,
	}
	for one := uintptr(0); one <= unix.CAP_LAST_CAP; one++ {
		if keep[one] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, one, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // the kernel does not know it
			return err
		}
	}
	return nil
}

// supervise runs the command as a child of this process, which is the first one of a namespace of processes: it sends signals on, and waits for processes
// whose parents have ended. All of them end when it returns, with the exit code of the command as the error.
func supervise(path string, c Command) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	pid, err := syscall.ForkExec(path, c.Args, &syscall.ProcAttr{Env: c.Env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errCommand, path, err)
	}
	go func() {
		for s := range signals {
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && isForeground() {
				continue // the terminal sends it to both processes
			}
			if sig, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(pid, sig) // it has ended otherwise
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for the command: %w", err)
		case got != pid:
		case status.Signaled():
			return ended(128 + int(status.Signal()))
		case status.Exited():
			return ended(status.ExitStatus())
		}
	}
}

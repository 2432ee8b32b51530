package sandbox

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstDescriptor is the lowest descriptor that a process of the sandbox gets from its parent. The command inherits lower ones, which
// shells and make use, and higher ones that are open: the lowest free descriptor is used.
const firstDescriptor = 10

// inherit returns a copy of a descriptor that the next process inherits under the same number.
func inherit(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, firstDescriptor)
	if err != nil {
		return nil, fmt.Errorf("passing on a descriptor: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// CloseInherited closes all descriptors from first on that this process has inherited: this program opens its own ones with CLOEXEC. A
// process that outlives the one that started it must not keep its locks and pipes.
func CloseInherited(first int) error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("closing inherited files: %w", err)
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < first {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// UseAllProcessors lets all threads of this process run on all processors that its control group allows, also if the process that
// started it was bound to one.
func UseAllProcessors() error {
	var all unix.CPUSet
	all.Fill()
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("using all processors: %w", err)
	}
	for _, e := range list {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, &all); err != nil {
			return fmt.Errorf("using all processors: %w", err)
		}
	}
	return nil
}

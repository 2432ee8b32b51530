package spool

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// The active segment is mapped into memory (MAP_SHARED), so that appending a record is a copy
// without a system call. The pages are those of the page cache: readers of the file see the
// record, and it survives when the process is killed. A record that was being copied at that
// time has a wrong checksum. The space is allocated beforehand, so that a full disk is reported
// by the allocation, and not by a memory fault while a record is copied.

// allocate allocates and maps a new file. If the file system does not support that, the
// segment is written with system calls instead.
func (s *segment) allocate(capacity int64) error {
	fd := int(s.file.Fd())
	err := unix.Fallocate(fd, 0, 0, capacity)
	if err == nil {
		s.mem, err = unix.Mmap(fd, 0, int(capacity), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) {
		return fmt.Errorf("allocating space for records: %w", err)
	}
	return nil
}

// copyIn appends records to the mapped file. It returns an error if the disk fails.
func (s *segment) copyIn(framed []byte) (err error) {
	if s.size+int64(len(framed)) > int64(len(s.mem)) {
		return errors.New("the segment is full")
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the mapped file: %v", p)
		}
	}()
	copy(s.mem[s.size:], framed)
	return nil
}

func (s *segment) unmap() error {
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return unix.Munmap(mem)
}

package spool

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// A file that is written to is mapped into memory: adding a record is a copy, with
// no call of the system. The pages are the page cache's own (MAP_SHARED). What was
// copied is there for whoever reads the file, and stays when the process is
// killed; a record that was being copied then has a wrong checksum. The room is
// allocated before, so that a full disk is an error there and no fault later.

// mapRoom gives a new file its room. Where the file system cannot do it, the file
// is written in the usual way.
func (s *segment) mapRoom(room int64) error {
	fd := int(s.file.Fd())
	err := unix.Fallocate(fd, 0, 0, room)
	if err == nil {
		s.mem, err = unix.Mmap(fd, 0, int(room), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) {
		return fmt.Errorf("making room for records: %w", err)
	}
	return nil
}

// copyIn adds records to the mapped file. A disk that fails is an error, too.
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

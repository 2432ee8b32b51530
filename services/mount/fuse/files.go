package fuse

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/erofs"
)

func (s *Server) lookup(r request, dir uint64, out []byte) ([]byte, syscall.Errno) {
	name, ok := r.name()
	if !ok {
		return out, unix.EINVAL
	}
	nid, ok := s.index.Lookup(dir, name)
	if !ok {
		return missingEntry(out), 0
	}
	n, ok := s.index.Inode(nid)
	if !ok {
		return out, unix.EIO
	}
	return s.appendEntry(out, nid, n), 0
}

func (s *Server) getattr(nid uint64, out []byte) ([]byte, syscall.Errno) {
	n, ok := s.index.Inode(nid)
	if !ok {
		return out, unix.EIO
	}
	out = order.AppendUint64(out, forever)
	out = order.AppendUint64(out, 0)
	return s.appendAttr(out, nid, n), 0
}

// readdir lists a directory from the cookie of the request on. With READDIRPLUS the kernel needs no LOOKUP afterwards.
func (s *Server) readdir(r request, dir uint64, out []byte) ([]byte, syscall.Errno) {
	cookie, size, ok := r.span()
	if !ok {
		return out, unix.EINVAL
	}
	if n, ok := s.index.Inode(dir); !ok || n.Mode&erofs.ModeType != erofs.ModeDir {
		return out, unix.ENOTDIR
	}
	plus, full := r.op == opReaddirplus, outHeader+min(size, maxRead)
	errno := syscall.Errno(0)
	err := s.index.Each(dir, cookie, func(name string, nid uint64, _ byte, next uint64) bool {
		need := direntSize + (len(name)+7)&^7
		if plus {
			need += entrySize
		}
		if len(out)+need > full {
			return false
		}
		n, ok := s.index.Inode(nid)
		if !ok {
			errno = unix.EIO
			return false
		}
		switch {
		case plus && (name == "." || name == ".."):
			out = append(out, make([]byte, entrySize)...) // without a node: the kernel has it
		case plus:
			out = s.appendEntry(out, nid, n)
		}
		out = appendDirent(out, name, nid, uint32(n.Mode)>>12, next)
		return true
	})
	if err != nil {
		s.failed(fmt.Errorf("reading a directory of the environment: %w", err))
		errno = unix.EIO
	}
	return out, errno
}

// read returns a part of a file: all bytes that the kernel requests, up to the end of the file.
func (s *Server) read(r request, nid uint64, out []byte) ([]byte, syscall.Errno) {
	offset, size, ok := r.span()
	n, found := s.index.Inode(nid)
	if !ok || !found || n.Mode&erofs.ModeType != erofs.ModeFile {
		return out, unix.EINVAL
	}
	if offset >= n.Size {
		return out, 0
	}
	size = int(min(uint64(size), n.Size-offset))
	if size > maxResponse {
		s.failed(fmt.Errorf("the kernel requests %d bytes of a file of the environment at once, and the limit is %d", size, maxResponse))
		return out, unix.EIO
	}
	device, at, ok := s.index.Extent(nid)
	if !ok {
		return out, unix.EIO
	}
	if device == erofs.Embedded {
		data, ok := s.index.Data(nid)
		if !ok || uint64(len(data)) < n.Size {
			return out, unix.EIO
		}
		return append(out, data[offset:offset+uint64(size)]...), 0
	}
	out = slices.Grow(out, size)[:len(out)+size]
	if err := s.files.ReadAt(device, out[len(out)-size:], at+int64(offset)); err != nil {
		s.failed(fmt.Errorf("reading a file of the environment: %w", err))
		return out, unix.EIO
	}
	s.ahead.note(device, at, int64(n.Size))
	return out, 0
}

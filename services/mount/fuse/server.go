// Package fuse serves an environment to the kernel through /dev/fuse.
//
// A mounted environment never changes, so that the kernel may cache everything for ever: entries, also missing ones,
// attributes, directories, links and pages. OPEN, OPENDIR, FLUSH and the messages of extended attributes are answered
// with ENOSYS once, after which the kernel does not send them. A file that was read before is opened, read and closed
// without any message.
//
// The process that serves a mount must never execute a file of it: while Go forks, it holds a processor until the exec is
// done, a garbage collection waits for it, and the exec waits for a READ. Start /proc/self/exe, which executes the file.
package fuse

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/erofs"
)

// A Reader reads files. It is used concurrently.
type Reader interface {
	// ReadAt fills p with the bytes of a device of the index from off on.
	ReadAt(device int, p []byte, off int64) error
}

// Options are the options of a server.
type Options struct {
	// UID and GID are the owner of all files.
	UID, GID int
	// Failed is called with the error of a read, of which the reader of the file only sees EIO; nil for no call.
	Failed func(error)
}

// A Server answers the messages of one mount.
type Server struct {
	index    *erofs.Index
	files    Reader
	uid, gid uint32
	failed   func(error)
	fd       int

	idle, loops atomic.Int32
	running     sync.WaitGroup
	reads       reads
	ahead       ahead
	counts      [opcodes]atomic.Int64
	other       atomic.Int64
}

// maxLoops is the maximum number of messages that are answered concurrently.
const maxLoops = 32

// NewServer returns a server for the connection fd, which Mount returned. The server owns fd.
func NewServer(fd int, index *erofs.Index, files Reader, o Options) *Server {
	failed := o.Failed
	if failed == nil {
		failed = func(error) {}
	}
	s := &Server{index: index, files: files, fd: fd, failed: failed, uid: uint32(o.UID), gid: uint32(o.GID)}
	s.ahead.runs, s.ahead.jobs = map[int]*run{}, make(chan job, 4)
	s.ahead.local, _ = files.(LocalReader)
	return s
}

// Serve answers messages until the file system is unmounted everywhere, and closes the connection.
func (s *Server) Serve() error {
	s.ahead.done.Go(s.send)
	s.start()
	s.running.Wait()
	close(s.ahead.jobs)
	s.ahead.done.Wait()
	s.reads.close()
	if err := unix.Close(s.fd); err != nil {
		return fmt.Errorf("closing /dev/fuse: %w", err)
	}
	return nil
}

// start starts a loop, unless there are enough.
func (s *Server) start() {
	if s.loops.Add(1) > maxLoops {
		s.loops.Add(-1)
		return
	}
	s.idle.Add(1)
	s.running.Go(s.loop)
}

// loop answers messages. It starts another loop whenever no loop waits for messages.
func (s *Server) loop() {
	in, out := make([]byte, requestSize), make([]byte, 0, 4<<10)
	for {
		n, err := unix.Read(s.fd, in)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT): // ENOENT: the request was cancelled
			continue
		case err != nil: // ENODEV: unmounted
			return
		}
		if s.idle.Add(-1) == 0 {
			s.start()
		}
		r, ok := parseRequest(in[:n])
		switch {
		case !ok:
		case r.op == opRead:
			out = s.answerReads(r, out)
		case r.op == opInterrupt:
			s.count(r.op)
			s.interrupt(r)
		default:
			out = s.answer(r, out[:0])
		}
		s.idle.Add(1)
	}
}

// answer handles a message and sends the response, which it returns as a buffer for the next one.
func (s *Server) answer(r request, out []byte) []byte {
	s.count(r.op)
	if r.op == opForget || r.op == opBatchForget {
		return out // these have no response
	}
	out, errno := s.handle(r, append(out, make([]byte, outHeader)...))
	s.respond(r.unique, out, errno)
	return out
}

// respond sends a response, which has space for its header.
func (s *Server) respond(unique uint64, out []byte, errno syscall.Errno) {
	if errno != 0 {
		out = out[:outHeader]
	}
	order.PutUint32(out, uint32(len(out)))
	order.PutUint32(out[4:], uint32(-int32(errno)))
	order.PutUint64(out[8:], unique)
	for {
		_, err := unix.Write(s.fd, out)
		if !errors.Is(err, unix.EINTR) {
			return // ENOENT: the request was cancelled; ENODEV ends the loop
		}
	}
}

func (s *Server) handle(r request, out []byte) ([]byte, syscall.Errno) {
	nid := r.node
	if nid == rootNode {
		nid = s.index.Root()
	}
	switch r.op { //nolint:exhaustive // others are not supported
	case opInit:
		return initialize(r, out, os.Getpagesize())
	case opLookup:
		return s.lookup(r, nid, out)
	case opGetattr:
		return s.getattr(nid, out)
	case opReadlink:
		target, ok := s.index.Target(nid)
		if !ok {
			return out, unix.EINVAL
		}
		return append(out, target...), 0
	case opRead:
		return s.read(r, nid, out)
	case opReaddir, opReaddirplus:
		return s.readdir(r, nid, out)
	case opStatfs:
		return statfs(out), 0
	case opIoctl: // isatty: Python before 3.14 calls it for each file that it opens, and the kernel does not cache the result
		return out, unix.ENOTTY
	case opDestroy, opRelease, opReleasedir:
		return out, 0
	}
	return out, unix.ENOSYS
}

// initialize answers INIT of a kernel whose pages have pageSize bytes.
func initialize(r request, out []byte, pageSize int) ([]byte, syscall.Errno) {
	if len(r.body) < 16 || order.Uint32(r.body) != 7 || order.Uint32(r.body[4:]) < 23 { // Linux 3.15
		return out, unix.EPROTO
	}
	flags := order.Uint32(r.body[12:])
	at := len(out)
	out = append(out, make([]byte, initOutSize)...)
	p := out[at:]
	order.PutUint32(p[0:], 7)
	order.PutUint32(p[4:], min(order.Uint32(r.body[4:]), 31))
	order.PutUint32(p[8:], 1<<20) // the maximum size of a read-ahead
	order.PutUint32(p[12:], flags&wantedFlags)
	order.PutUint16(p[16:], 64) // the maximum number of requests in the background,
	order.PutUint16(p[18:], 48) // and of those from which on the device is congested
	order.PutUint32(p[20:], maxWrite)
	order.PutUint32(p[24:], 1) // granularity of times, in ns
	order.PutUint16(p[28:], uint16(max(1, maxRead/pageSize)))
	return out, 0
}

func statfs(out []byte) []byte {
	at := len(out)
	out = append(out, make([]byte, statfsSize)...)
	p := out[at:]
	order.PutUint32(p[40:], erofs.BlockSize)
	order.PutUint32(p[44:], 255) // the maximum length of a name
	order.PutUint32(p[48:], erofs.BlockSize)
	return out
}

func (s *Server) count(o opcode) {
	if int(o) < len(s.counts) {
		s.counts[o].Add(1)
		return
	}
	s.other.Add(1)
}

// Messages returns the number of messages so far by their names.
func (s *Server) Messages() map[string]int64 {
	out := map[string]int64{}
	for i := range s.counts {
		if n := s.counts[i].Load(); n > 0 {
			out[opcode(i).name()] += n
		}
	}
	if n := s.other.Load(); n > 0 {
		out["other"] += n
	}
	return out
}

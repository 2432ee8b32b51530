package fuse

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/erofs"
)

// A LocalReader is a Reader that knows which bytes need no network.
type LocalReader interface {
	// ReadLocal is ReadAt for bytes on this machine. It reports whether it has read them.
	ReadLocal(device int, p []byte, off int64) bool
}

const (
	// notifyStore is the message with which the server stores bytes of a file in the page cache, and storeSize the size of its header.
	notifyStore = 4
	storeSize   = 24
	// minRun is the number of files that are read in the order of their package from which on the next ones are sent in advance: an import of modules reads
	// fewer. The number of those that are sent at once is at most maxSent. Larger files than maxRead are not sent: the kernel reads them ahead.
	minRun, maxSent = 16, 64
)

// ahead sends files to the kernel before it requests them. Commands that read all files, e.g. copy them, read those of a package in its order, and a READ of
// a small file takes longer than copying its bytes. Only files on this machine are sent.
type ahead struct {
	local LocalReader // nil for no sending
	jobs  chan job
	done  sync.WaitGroup

	mu   sync.Mutex
	runs map[int]*run
}

// A job is to send n files of a device from an offset on.
type job struct {
	device int
	at     int64
	n      int
}

// A run is a sequence of reads of whole files of a device.
type run struct {
	next   int64 // the offset of the file after the last one that was read or sent
	length int
}

// A stored file is a small file with its place in a package.
type stored struct {
	device int
	at     int64
	nid    uint64
	size   int
}

// note notes a READ of a file.
func (a *ahead) note(device int, at, size int64) {
	if a.local == nil || size > maxRead {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.runs[device]
	if r == nil {
		r = &run{}
		a.runs[device] = r
	}
	if r.next != at {
		r.length = 0
	}
	r.length++
	r.next = after(at, size)
	if r.length < minRun {
		return
	}
	select {
	case a.jobs <- job{device, r.next, min(r.length, maxSent)}:
	default: // the sender is busy
	}
}

// sent notes that n files were sent up to an offset. If none was, the next attempt is after as many reads as the first.
func (a *ahead) sent(device int, from, to int64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.runs[device]
	switch {
	case r == nil || r.next != from:
	case n == 0:
		r.length = 0
	default:
		r.next, r.length = to, r.length+n
	}
}

// after returns the offset of the file after one.
func after(at, size int64) int64 {
	return at + (size+erofs.BlockSize-1)/erofs.BlockSize*erofs.BlockSize
}

// send sends the files of jobs. It may wait for a page that a READ has locked, so that it must not answer messages.
func (s *Server) send() {
	var files []stored // all small files
	buf := make([]byte, outHeader+storeSize+maxRead)
	for j := range s.ahead.jobs {
		if files == nil {
			files = s.smallFiles()
		}
		i, ok := slices.BinarySearchFunc(files, j, func(f stored, j job) int { return cmp.Or(cmp.Compare(f.device, j.device), cmp.Compare(f.at, j.at)) })
		from, n := j.at, 0
		for ; ok && i < len(files) && n < j.n && files[i].device == j.device && files[i].at == j.at; i++ {
			if !s.store(files[i], buf) {
				break
			}
			j.at = after(j.at, int64(files[i].size))
			n++
		}
		s.ahead.sent(j.device, from, j.at, n)
	}
}

// store sends a file. It reports false if the kernel has not looked it up, or if it is not on this machine.
func (s *Server) store(f stored, buf []byte) bool {
	out := buf[:outHeader+storeSize+f.size]
	if !s.ahead.local.ReadLocal(f.device, out[outHeader+storeSize:], f.at) {
		return false
	}
	clear(out[:outHeader+storeSize])
	order.PutUint32(out, uint32(len(out)))
	order.PutUint32(out[4:], notifyStore)
	order.PutUint64(out[outHeader:], f.nid)
	order.PutUint32(out[outHeader+16:], uint32(f.size))
	for {
		_, err := unix.Write(s.fd, out)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// smallFiles returns all files of packages that are sent, in their order.
func (s *Server) smallFiles() []stored {
	var out []stored
	dirs, seen := []uint64{s.index.Root()}, map[uint64]bool{s.index.Root(): true}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		_ = s.index.Each(dir, 0, func(name string, nid uint64, _ byte, _ uint64) bool { // a malformed directory has no files
			n, ok := s.index.Inode(nid)
			switch {
			case name == "." || name == ".." || !ok || seen[nid]:
			case n.Mode&erofs.ModeType == erofs.ModeDir: // a hostile index may have it more than once, also within itself
				seen[nid] = true
				dirs = append(dirs, nid)
			case n.Mode&erofs.ModeType == erofs.ModeFile && n.Size > 0 && n.Size <= maxRead:
				seen[nid] = true
				if device, at, ok := s.index.Extent(nid); ok && device != erofs.Embedded {
					out = append(out, stored{device, at, nid, int(n.Size)})
				}
			}
			return true
		})
	}
	slices.SortFunc(out, func(a, b stored) int { return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.at, b.at)) })
	return slices.CompactFunc(out, func(a, b stored) bool { return a.device == b.device && a.at == b.at })
}

package fuse

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxReads is the maximum number of READs that are answered concurrently. Others wait, so that loops are left for messages that need
// no network, and for INTERRUPT.
const maxReads = maxLoops - 8

// pollInterval is the time between two looks at the signals of a thread that was interrupted while it reads.
const pollInterval = 500 * time.Millisecond

// reads are the READs that have no response yet.
type reads struct {
	mu      sync.Mutex
	pending map[uint64]*pendingRead
	running int
	waiting []request
}

// A pendingRead is a READ without a response.
type pendingRead struct {
	pid     uint32
	watched bool
}

// add adds a READ. It reports whether the caller must answer it, because fewer than maxReads are being answered.
func (q *reads) add(r request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == nil {
		q.pending = map[uint64]*pendingRead{}
	}
	q.pending[r.unique] = &pendingRead{pid: r.pid}
	if q.running < maxReads {
		q.running++
		return true
	}
	r.body = bytes.Clone(r.body) // the buffer is reused
	q.waiting = append(q.waiting, r)
	return false
}

// next returns a READ that waits. If no READ waits, it counts one fewer that is being answered.
func (q *reads) next() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		r := q.waiting[0]
		q.waiting[0], q.waiting = request{}, q.waiting[1:]
		if q.pending[r.unique] != nil {
			return r, true
		}
	}
	q.waiting = nil
	q.running--
	return request{}, false
}

// take reports whether a READ has no response yet, and gives the caller the right to respond.
func (q *reads) take(unique uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.pending[unique]
	delete(q.pending, unique)
	return ok
}

// close ends all READs: the connection is closed.
func (q *reads) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = nil
}

// answerReads answers a READ, and then those that wait.
func (s *Server) answerReads(r request, out []byte) []byte {
	if !s.reads.add(r) {
		return out
	}
	for ok := true; ok; r, ok = s.reads.next() {
		s.count(r.op)
		var errno syscall.Errno
		out, errno = s.handle(r, append(out[:0], make([]byte, outHeader)...))
		if s.reads.take(r.unique) {
			s.respond(r.unique, out, errno)
		}
		if cap(out) > 2*maxRead {
			out = nil
		}
	}
	return out
}

// interrupt handles an INTERRUPT: a thread that waits for a READ has got a signal. Only a thread that was killed gets EINTR: to others,
// an interrupted read of a page is SIGBUS. The kernel sends one INTERRUPT for a READ, so that the signals of the thread are polled
// until the READ has a response. The work for the READ continues: others may wait for the same bytes.
func (s *Server) interrupt(r request) {
	if len(r.body) < 8 {
		return
	}
	unique := order.Uint64(r.body)
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	p := s.reads.pending[unique]
	switch {
	case p == nil: // another loop has not added it yet, or the response is being sent: the kernel repeats the message, if it must
		s.respond(r.unique, make([]byte, outHeader), unix.EAGAIN)
	case !p.watched:
		p.watched = true
		time.AfterFunc(0, func() { s.watch(unique, p.pid) })
	}
}

// watch responds to a READ when the thread that waits for it was killed.
func (s *Server) watch(unique uint64, pid uint32) {
	killed := isKilled(pid)
	s.reads.mu.Lock() // so that the connection is not closed meanwhile
	defer s.reads.mu.Unlock()
	switch {
	case s.reads.pending[unique] == nil:
	case killed:
		delete(s.reads.pending, unique)
		s.respond(unique, make([]byte, outHeader), unix.EINTR)
	default:
		time.AfterFunc(pollInterval, func() { s.watch(unique, pid) })
	}
}

// isKilled reports whether a thread has got SIGKILL. The kernel also sends it to all threads of a process that another signal ends.
func isKilled(pid uint32) bool {
	if pid == 0 {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		var set uint64
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if _, err := fmt.Sscanf(strings.TrimSpace(value), "%x", &set); err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

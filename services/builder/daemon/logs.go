package daemon

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/limits"
)

// logBudget limits the output of the steps of one build. buildkitd holds the output in
// memory and on disk, so the middle of a long output is omitted before it gets there. Safe
// for concurrent use.
type logBudget struct {
	mu    sync.Mutex
	head  int // bytes that may still pass unchanged
	tails int // bytes that may still be used for the ends of outputs
}

func newLogBudget() *logBudget {
	return &logBudget{head: limits.StepLogHead, tails: limits.StepLogTails}
}

// pass returns how many of n bytes may pass.
func (b *logBudget) pass(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.head)
	b.head -= n
	return n
}

// tail returns how many bytes of the end of one output to keep. The number decreases as the
// budget is used up, so that the total is bounded.
func (b *logBudget) tail() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := max(limits.StepLogLeast, min(limits.StepLogTail, b.tails/8))
	b.tails = max(0, b.tails-n)
	return n
}

// output copies what one step writes to stdout or stderr to buildkitd.
type output struct {
	from   *os.File // the step writes to its other end
	to     *os.File // read by buildkitd
	budget *logBudget
	end    *ring // nil until the budget is used up
	left   int64 // omitted bytes outside the ring
	within bool  // the passed output ends within a line
}

// pump copies until the step has closed its end, and then closes both.
func (o *output) pump() {
	defer o.from.Close()
	defer o.to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := o.from.Read(buf)
		if !o.write(buf[:n]) || err != nil {
			break
		}
	}
	o.finish()
}

// write passes or keeps bytes. It returns false if the reader has closed its end.
func (o *output) write(b []byte) bool {
	if o.end == nil {
		n := o.budget.pass(len(b))
		if n < len(b) {
			n = o.whole(b, n)
		}
		if n > 0 {
			o.within = b[n-1] != '\n'
		}
		if _, err := o.to.Write(b[:n]); err != nil {
			return false
		}
		if n == len(b) {
			return true
		}
		o.end, b = newRing(o.budget.tail()), b[n:]
	}
	o.left += int64(o.end.write(b))
	return true
}

// whole returns how much of b to pass: about n bytes, up to the end of a line.
func (o *output) whole(b []byte, n int) int {
	if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 || !o.within {
		return i + 1
	}
	return bytes.IndexByte(b, '\n') + 1
}

// finish writes the kept end of a long output, after a line that states what is missing.
func (o *output) finish() {
	if o.end == nil {
		return
	}
	end, dropped := o.end.lines(o.left > 0)
	if left := o.left + int64(dropped); left > 0 {
		_, _ = fmt.Fprintf(o.to, "\n… %.1f MiB of this step's output left out: the log is too long …\n", float64(left)/(1<<20))
	}
	_, _ = o.to.Write(end)
}

// ring holds the last bytes that were written to it.
type ring struct {
	size int
	b    []byte // grows up to size, then is overwritten
	next int
}

func newRing(size int) *ring { return &ring{size: size} }

// write returns how many earlier bytes were lost.
func (r *ring) write(b []byte) (lost int) {
	if over := len(b) - r.size; over > 0 {
		lost, b = over, b[over:]
	}
	if room := r.size - len(r.b); room > 0 {
		n := min(room, len(b))
		r.b, b = append(r.b, b[:n]...), b[n:]
	}
	for len(b) > 0 {
		n := copy(r.b[r.next:], b)
		r.next, b, lost = (r.next+n)%r.size, b[n:], lost+n
	}
	return lost
}

// lines returns the kept bytes in order. If cut is set, it drops an incomplete first line,
// unless there is nothing else.
func (r *ring) lines(cut bool) (kept []byte, dropped int) {
	kept = append(append([]byte{}, r.b[r.next:]...), r.b[:r.next]...)
	if !cut {
		return kept, 0
	}
	for i, c := range kept {
		if c == '\n' && i+1 < len(kept) {
			return kept[i+1:], i + 1
		}
	}
	return kept, 0
}

// outputs creates pipes between a step and the readers of its output. The result theirs is
// for the step.
func outputs(budget *logBudget, readers []*os.File) (ours []*output, theirs []int, err error) {
	for _, to := range readers {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			closeAll(theirs)
			for _, o := range ours {
				_ = o.from.Close()
			}
			return nil, nil, err
		}
		_ = unix.SetNonblock(ends[0], true) // the step's own end must block
		ours = append(ours, &output{from: os.NewFile(uintptr(ends[0]), "step"), to: to, budget: budget})
		theirs = append(theirs, ends[1])
	}
	return ours, theirs, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

package app

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/services/internal/limits"
)

// outputEvery is how often a busy Output writes; flushTimeout is how long Flush waits.
const (
	outputEvery  = 50 * time.Millisecond
	flushTimeout = time.Second
)

// outputKept is the maximum size of a buffer that is reused, in bytes. It is enough for the lines of
// outputEvery at 10,000 requests a second.
const outputKept = 256 << 10

// Output writes a log in the background: Write appends a line to a buffer, which one
// goroutine writes out. The first line after a pause is written immediately, the following
// ones together. Callers never wait for the reader of the log: lines that do not fit into
// the buffer are dropped and counted. Safe for concurrent use.
type Output struct {
	to io.Writer
	// hasLines signals that there are lines, and hasMany that there are many.
	hasLines, hasMany chan struct{}
	asked             chan chan struct{}
	ended             chan struct{}
	dropped           atomic.Int64

	mu     sync.Mutex
	lines  []byte
	spare  []byte // the writer's last buffer, if small
	closed bool
}

// NewOutput starts a writer. Close it, so that no lines are lost.
func NewOutput(to io.Writer) *Output {
	o := &Output{
		to: to, hasLines: make(chan struct{}, 1), hasMany: make(chan struct{}, 1),
		asked: make(chan chan struct{}), ended: make(chan struct{}),
	}
	go o.run()
	return o
}

// Write appends a line; it never fails. After Close it writes directly.
func (o *Output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.to.Write(line)
	}
	if len(o.lines)+len(line) > limits.LogWaiting {
		o.dropped.Add(1)
		return len(line), nil
	}
	o.lines = append(o.lines, line...)
	signal(o.hasLines)
	if len(o.lines) > limits.LogWaiting/4 {
		signal(o.hasMany)
	}
	return len(line), nil
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // already signalled
	}
}

// Dropped returns the number of dropped lines.
func (o *Output) Dropped() int64 { return o.dropped.Load() }

// Flush returns when all earlier lines are written, or after a second.
func (o *Output) Flush() {
	timeout := time.NewTimer(flushTimeout)
	defer timeout.Stop()
	done := make(chan struct{})
	select {
	case o.asked <- done:
	case <-o.ended:
		return
	case <-timeout.C:
		return
	}
	select {
	case <-done:
	case <-timeout.C:
	}
}

// Close writes the remaining lines and ends the writer. Call it once.
func (o *Output) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.Flush()
	close(o.ended)
}

// run is the writer.
func (o *Output) run() {
	for {
		select {
		case <-o.hasLines:
			o.write()
			o.rest()
		case done := <-o.asked:
			o.write()
			close(done)
		case <-o.ended:
			return
		}
	}
}

// rest waits to collect lines, unless Flush was called or there are many.
func (o *Output) rest() {
	next := time.NewTimer(outputEvery)
	defer next.Stop()
	select {
	case <-next.C:
	case <-o.hasMany:
	case <-o.ended:
	case done := <-o.asked:
		o.write()
		close(done)
	}
}

func (o *Output) write() {
	o.mu.Lock()
	lines := o.lines
	o.lines, o.spare = o.spare, nil
	o.mu.Unlock()
	if len(lines) > 0 {
		_, _ = o.to.Write(lines) // an error cannot be reported anywhere
	}
	if cap(lines) <= outputKept {
		o.mu.Lock()
		o.spare = lines[:0]
		o.mu.Unlock()
	}
}

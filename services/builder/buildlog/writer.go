// Package buildlog sends a build's output to the bus, in order. If a log is too long, it
// only sends the beginning and the end. The stream is the stored log; memory only holds
// lines that are not yet sent.
package buildlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/bus/buildbus"
)

// Lines are sent in messages of at most chunkBytes, when a message is full or after a delay: at first
// minDelay, so that readers see lines immediately, and more by moreDelay with each message up to maxDelay,
// so that a build that prints for an hour sends five messages a second.
const (
	chunkBytes = 64 << 10
	minDelay   = 5 * time.Millisecond
	moreDelay  = 20 * time.Microsecond
	maxDelay   = 200 * time.Millisecond
)

// Publish publishes a message on a stream. The id makes repetitions harmless.
type Publish func(ctx context.Context, subject, id string, m proto.Message) error

// Writer sends a build's output in order. Lines wait in memory while the bus is
// unavailable, bounded by the cap. Safe for concurrent use.
type Writer struct {
	job     jobs.Job
	publish Publish
	log     *slog.Logger

	mu      sync.Mutex
	cap     *logCap
	pending []*buildv1.LogEntry
	bytes   int

	first  chan struct{} // the first line of a chunk was printed
	full   chan struct{} // a chunk is complete
	closed chan struct{} // nothing more will be printed
	done   chan struct{} // everything was sent, or given up
	stop   context.CancelFunc
	sent   int
}

// New creates a writer. The caller must call End.
func New(job jobs.Job, p Publish, log *slog.Logger) *Writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &Writer{
		job: job, publish: p, log: log, cap: newLogCap(headBytes, tailBytes), stop: stop,
		first: make(chan struct{}, 1), full: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{}),
	}
	go w.run(ctx)
	return w
}

// Print adds a line.
func (w *Writer) Print(phase, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.cap.add(phase, text, time.Now()); e != nil {
		w.append(e)
	}
}

func (w *Writer) append(e *buildv1.LogEntry) {
	if len(w.pending) == 0 {
		signal(w.first)
	}
	w.pending = append(w.pending, e)
	if w.bytes += cost(e); w.bytes >= chunkBytes {
		signal(w.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// End sends the remaining lines and waits until they are sent or ctx ends. Print must not
// be called afterwards.
func (w *Writer) End(ctx context.Context) {
	w.mu.Lock()
	for _, e := range w.cap.end() {
		w.append(e)
	}
	w.mu.Unlock()
	close(w.closed)
	select {
	case <-w.done:
	case <-ctx.Done():
		w.stop()
		<-w.done
		w.log.Warn("The end of a build's log could not be sent", "build_id", w.job.ID, "err", ctx.Err())
	}
	w.stop()
}

func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	for closing := false; !closing; {
		select {
		case <-w.closed:
			closing = true
		case <-w.full:
		case <-w.first:
			closing = w.wait()
		}
		for w.send(ctx) {
		}
	}
}

// wait waits for more lines of a chunk. It reports whether nothing more will be printed.
func (w *Writer) wait() (closing bool) {
	delay := time.NewTimer(min(minDelay+time.Duration(w.sent)*moreDelay, maxDelay))
	defer delay.Stop()
	select {
	case <-w.closed:
		return true
	case <-w.full:
	case <-delay.C:
	}
	return false
}

// send sends one chunk. It returns false if there is none, or if sending has failed
// permanently.
func (w *Writer) send(ctx context.Context) bool {
	entries := w.take()
	if len(entries) == 0 {
		return false
	}
	w.sent++
	id := fmt.Sprintf("%s.%d.%d.%d", w.job.ID, w.job.Sequence, w.job.Delivery, w.sent)
	chunk := &buildv1.LogChunk{Delivery: w.job.Delivery, Entries: entries}
	return w.publish(ctx, buildbus.Log(w.job.ID), id, chunk) == nil
}

// take removes the lines of one chunk.
func (w *Writer) take() []*buildv1.LogEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for n < len(w.pending) && (n == 0 || size+cost(w.pending[n]) <= chunkBytes) {
		size += cost(w.pending[n])
		n++
	}
	out := w.pending[:n:n]
	w.pending = w.pending[n:]
	w.bytes -= size
	return out
}

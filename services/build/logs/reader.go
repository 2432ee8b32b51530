package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
)

// Reader sends one log to one reader, each line once, whatever it is read from. For one
// user; Close it after use.
type Reader struct {
	logs *Logs
	id   string
	out  lineWriter
	// tail is there from when the log is followed.
	tail  *tail
	leave func()
}

// Reader reads the log of a build behind a line.
func (l *Logs) Reader(id string, after int64, send func(*buildv1.StreamLogsResponse) error) *Reader {
	return &Reader{logs: l, id: id, out: lineWriter{after: after, send: send}, leave: func() {}}
}

// Close ends it.
func (r *Reader) Close() { r.leave() }

// Stored sends what is stored of a log. It begins with the part that holds the first line
// that the reader lacks.
func (r *Reader) Stored(ctx context.Context) error {
	from, err := r.logs.store.LogBefore(ctx, r.id, r.out.after+1)
	if err != nil {
		return r.logs.store.Fault("reading a log", err)
	}
	for {
		first, chunk, err := r.logs.store.LogAfter(ctx, r.id, from)
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return r.logs.store.Fault("reading a log", err)
		}
		if err := r.out.chunk(first, chunk); err != nil {
			return err
		}
		from = first
	}
}

// Written sends what is on the bus of a log.
func (r *Reader) Written(ctx context.Context) error {
	r.out.restart()
	if err := r.logs.readBus(ctx, r.id, r.out.add); err != nil {
		return fmt.Errorf("reading the log of %s: %w", r.id, err)
	}
	return nil
}

// Follow sends what comes, until the build ends, or for a while: whoever calls
// looks then whether it has, since a message may have been lost.
func (r *Reader) Follow(ctx context.Context, ended <-chan struct{}, while time.Duration) error {
	if r.tail == nil {
		r.tail, r.leave = r.logs.tails.enter(r.id)
	}
	look := time.NewTimer(while)
	defer look.Stop()
	for {
		lines, gone, more := r.tail.after(r.out.after)
		switch {
		case gone: // it is too far behind for what is kept
			before := r.out.after
			if err := r.Written(ctx); err != nil {
				return err
			}
			if r.out.after > before {
				continue
			}
		case len(lines) > 0:
			if err := r.out.lines(lines); err != nil {
				return err
			}
			continue
		}
		select {
		case <-more:
		case <-ended:
			return nil
		case <-look.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lineWriter sends lines that the reader does not have yet.
type lineWriter struct {
	after int64
	next  int64 // ordinal of the line before the next chunk
	send  func(*buildv1.StreamLogsResponse) error
}

// chunk sends the lines of a chunk that begins after line number first-1.
func (w *lineWriter) chunk(first int64, c *buildv1.LogChunk) error {
	out := &buildv1.StreamLogsResponse{}
	for i, e := range c.GetEntries() {
		if n := first + int64(i); n > w.after {
			out.Lines = append(out.Lines, &buildv1.LogLine{Ordinal: n, Text: e.GetText(), Phase: e.GetPhase()})
		}
	}
	if len(out.GetLines()) == 0 {
		return nil
	}
	return w.lines(out.GetLines())
}

// lines sends lines that follow on the last one.
func (w *lineWriter) lines(list []*buildv1.LogLine) error {
	w.after = list[len(list)-1].GetOrdinal()
	return w.send(&buildv1.StreamLogsResponse{Lines: list})
}

// restart begins to count from the first line again.
func (w *lineWriter) restart() { w.next = 1 }

// add sends the next chunk.
func (w *lineWriter) add(c *buildv1.LogChunk) error {
	first := w.next
	w.next += int64(len(c.GetEntries()))
	return w.chunk(first, c)
}

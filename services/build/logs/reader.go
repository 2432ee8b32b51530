package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
)

// Reader sends one log to one client, each line once, whether the line is in SQL, on the bus
// or in memory. It is not safe for concurrent use. Call Close after use.
type Reader struct {
	logs *Logs
	id   string
	out  lineWriter
	// tail is set while the log is followed.
	tail  *tail
	leave func()
}

// Reader returns a reader of a build's log that begins after a line.
func (l *Logs) Reader(id string, after int64, send func(*buildv1.StreamLogsResponse) error) *Reader {
	return &Reader{logs: l, id: id, out: lineWriter{after: after, send: send}, leave: func() {}}
}

// Close releases the reader.
func (r *Reader) Close() { r.leave() }

// Stored sends the lines in SQL that the client does not have yet.
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

// Written sends the part of a log that is on the bus.
func (r *Reader) Written(ctx context.Context) error {
	r.out.restart()
	if err := r.logs.readBus(ctx, r.id, r.out.add); err != nil {
		return fmt.Errorf("reading the log of %s: %w", r.id, err)
	}
	return nil
}

// Follow sends new lines until ended receives a value or the duration while has passed. The
// caller then checks whether the build has ended, since a notification may have been lost.
func (r *Reader) Follow(ctx context.Context, ended <-chan struct{}, while time.Duration) error {
	if r.tail == nil {
		r.tail, r.leave = r.logs.tails.enter(r.id)
	}
	look := time.NewTimer(while)
	defer look.Stop()
	for {
		lines, gone, more := r.tail.after(r.out.after)
		switch {
		case gone: // the missing lines are no longer in memory
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

// lineWriter sends lines that the client does not have yet.
type lineWriter struct {
	after int64
	next  int64 // ordinal of the first line of the next chunk
	send  func(*buildv1.StreamLogsResponse) error
}

// chunk sends the lines of a chunk whose first line has the ordinal first.
func (w *lineWriter) chunk(first int64, c *buildv1.LogChunk) error {
	out := &buildv1.StreamLogsResponse{}
	for i, e := range c.GetEntries() {
		if n := first + int64(i); n > w.after {
			out.Lines = append(out.Lines, &buildv1.LogLine{Ordinal: n, Text: e.GetText(), Phase: e.GetPhase(), TimeMs: e.GetTimeMs()})
		}
	}
	if len(out.GetLines()) == 0 {
		return nil
	}
	return w.lines(out.GetLines())
}

// lines sends lines that follow the last one.
func (w *lineWriter) lines(list []*buildv1.LogLine) error {
	w.after = list[len(list)-1].GetOrdinal()
	return w.send(&buildv1.StreamLogsResponse{Lines: list})
}

// restart sets the position back to the first line.
func (w *lineWriter) restart() { w.next = 1 }

// add sends the next chunk.
func (w *lineWriter) add(c *buildv1.LogChunk) error {
	first := w.next
	w.next += int64(len(c.GetEntries()))
	return w.chunk(first, c)
}

package logs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// tails holds the logs that clients follow in this process. Each is read from the bus once
// for all its followers, since a consumer per follower would cost fifty times as much.
type tails struct {
	follow follower
	max    int // limit of the text of one tail in bytes

	mu   sync.Mutex
	open map[string]*tail
}

// A follower calls each with the messages of a log until it reports that one was the last,
// or ctx ends.
type follower func(ctx context.Context, id string, each func(jetstream.Msg) (last bool, err error)) error

func newTails(follow follower) *tails {
	return &tails{follow: follow, max: limits.LogTail, open: map[string]*tail{}}
}

// tail is the end of one log, for any number of readers, each with its own position.
type tail struct {
	stop      context.CancelFunc
	followers int // guarded by tails.mu

	mu    sync.Mutex
	lines []*buildv1.LogLine
	bytes int
	last  int64         // ordinal of the last line
	more  chan struct{} // closed when there are more lines
}

// enter returns the tail of a log. Call leave when it is no longer needed.
func (t *tails) enter(id string) (_ *tail, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[id]
	if one == nil {
		ctx, stop := context.WithCancel(context.Background())
		one = &tail{stop: stop, more: make(chan struct{})}
		t.open[id] = one
		go t.read(ctx, id, one)
	}
	one.followers++
	return one, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.followers--; one.followers == 0 {
			one.stop()
			delete(t.open, id)
		}
	}
}

// read reads the log from the bus until it has no followers. It retries while NATS is
// unavailable or has no log yet.
func (t *tails) read(ctx context.Context, id string, one *tail) {
	for ctx.Err() == nil {
		next := int64(1)
		_ = t.follow(ctx, id, func(m jetstream.Msg) (bool, error) {
			chunk, _, err := readChunk(m)
			if err != nil {
				return false, err
			}
			one.add(next, chunk, t.max)
			next += int64(len(chunk.GetEntries()))
			return false, nil
		})
		retry.Sleep(ctx, time.Second)
	}
}

// add appends the lines of a chunk whose first line has the ordinal first, except lines that
// it already has. Beyond most bytes it drops the oldest lines.
func (t *tail) add(first int64, c *buildv1.LogChunk, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range c.GetEntries() {
		n := first + int64(i)
		if n <= t.last {
			continue
		}
		t.last = n
		t.lines = append(t.lines, &buildv1.LogLine{Ordinal: n, Text: e.GetText(), Phase: e.GetPhase(), TimeMs: e.GetTimeMs()})
		t.bytes += lineSize(t.lines[len(t.lines)-1])
	}
	for t.bytes > most && len(t.lines) > 0 {
		t.bytes -= lineSize(t.lines[0])
		t.lines[0] = nil // the backing array lives on, so release the text
		t.lines = t.lines[1:]
	}
	close(t.more)
	t.more = make(chan struct{})
}

// lineSize is the approximate memory of a line.
func lineSize(l *buildv1.LogLine) int { return len(l.GetText()) + len(l.GetPhase()) + 128 }

// batch is how many lines are sent in one message.
const batch = 256

// after returns the lines after a position, or a channel that is closed when there are
// more. The result gone reports that some of the lines were dropped.
func (t *tail) after(place int64) (lines []*buildv1.LogLine, gone bool, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.last - int64(len(t.lines)) // the line before the first in memory
	if place < oldest {
		return nil, true, t.more
	}
	rest := t.lines[min(place-oldest, int64(len(t.lines))):]
	return slices.Clone(rest[:min(len(rest), batch)]), false, t.more // a copy, because add clears dropped lines
}

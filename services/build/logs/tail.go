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

// tails are the logs that somebody follows in this process. Each is read from the
// bus once, however many follow it: a consumer of their own would cost each of
// them fifty times what a place in a shared list does.
type tails struct {
	follow follower
	max    int // bytes of text that one tail keeps

	mu   sync.Mutex
	open map[string]*tail
}

// follower gives each message of a log until each says that it was the last, or ctx ends.
type follower func(ctx context.Context, id string, each func(jetstream.Msg) (last bool, err error)) error

func newTails(follow follower) *tails {
	return &tails{follow: follow, max: limits.LogTail, open: map[string]*tail{}}
}

// tail is the end of one log, for any number of readers who each go at their own
// pace.
type tail struct {
	stop      context.CancelFunc
	followers int // guarded by tails.mu

	mu    sync.Mutex
	lines []*buildv1.LogLine
	bytes int
	last  int64         // ordinal of the last line
	more  chan struct{} // closed when there are more lines
}

// enter returns the tail of a log; call leave when it is not needed any more.
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

// read takes the log from the bus until nobody follows it. NATS may go and come,
// and may have no log yet.
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

// add appends the lines of a chunk that begins with the line first; those that are
// there already are left out. The oldest go when it becomes too much.
func (t *tail) add(first int64, c *buildv1.LogChunk, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range c.GetEntries() {
		n := first + int64(i)
		if n <= t.last {
			continue
		}
		t.last = n
		t.lines = append(t.lines, &buildv1.LogLine{Ordinal: n, Text: e.GetText(), Phase: e.GetPhase()})
		t.bytes += lineSize(t.lines[len(t.lines)-1])
	}
	for t.bytes > most && len(t.lines) > 0 {
		t.bytes -= lineSize(t.lines[0])
		t.lines[0] = nil // the array lives on; the text must not
		t.lines = t.lines[1:]
	}
	close(t.more)
	t.more = make(chan struct{})
}

// lineSize is what a line takes up in memory, about.
func lineSize(l *buildv1.LogLine) int { return len(l.GetText()) + len(l.GetPhase()) + 128 }

// batch is how many lines go out in one message.
const batch = 256

// after returns the lines behind a place; without any, what tells that there are
// more. gone says that some of them are not kept any more.
func (t *tail) after(place int64) (lines []*buildv1.LogLine, gone bool, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.last - int64(len(t.lines)) // the line before the first that is kept
	if place < oldest {
		return nil, true, t.more
	}
	rest := t.lines[min(place-oldest, int64(len(t.lines))):]
	return slices.Clone(rest[:min(len(rest), batch)]), false, t.more // add clears what it lets go of
}

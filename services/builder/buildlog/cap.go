package buildlog

import (
	"fmt"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// Bounds of a stored log, in bytes of text.
const (
	headBytes = 8 << 20
	tailBytes = 2 << 20
	LineBytes = 16 << 10
	// lineCost is added to each line's length, so that empty lines count, too.
	lineCost = 16
)

// logCap passes the beginning of a log and retains the end. It never holds more than tail
// bytes. Not safe for concurrent use.
type logCap struct {
	head, tail int // bytes that may still pass; bytes that may be retained
	kept       []*buildv1.LogEntry
	keptBytes  int
	leftLines  int
	leftBytes  int
	leftAt     int64 // the time of the last line that was left out
	full       bool
}

func newLogCap(head, tail int) *logCap { return &logCap{head: head, tail: tail} }

// add adds a line that was printed at a time. It returns the entry to send now, or nil if it is retained.
func (c *logCap) add(phase, text string, at time.Time) *buildv1.LogEntry {
	e := &buildv1.LogEntry{Text: Clean(text), Phase: phase, TimeMs: at.UnixMilli()}
	size := cost(e)
	if !c.full && size <= c.head {
		c.head -= size
		return e
	}
	c.full = true // after a retained line all later lines are retained, to keep the order
	c.kept = append(c.kept, e)
	c.keptBytes += size
	for c.keptBytes > c.tail && len(c.kept) > 0 {
		c.drop()
	}
	return nil
}

func (c *logCap) drop() {
	size := cost(c.kept[0])
	c.leftAt = c.kept[0].GetTimeMs()
	c.kept[0] = nil // the backing array lives on, so release the text
	c.kept = c.kept[1:]
	c.keptBytes -= size
	c.leftLines++
	c.leftBytes += size
}

// end returns the retained lines, after a line that states how many are missing.
func (c *logCap) end() []*buildv1.LogEntry {
	out := c.kept
	c.kept = nil
	if c.leftLines > 0 {
		text := fmt.Sprintf("… %d lines (%.1f MiB) left out: the log is too long …", c.leftLines, float64(c.leftBytes)/(1<<20))
		out = append([]*buildv1.LogEntry{{Text: text, TimeMs: c.leftAt}}, out...)
	}
	return out
}

func cost(e *buildv1.LogEntry) int { return len(e.GetText()) + lineCost }

// Clean returns the text as valid UTF-8, without line ends, and truncated.
func Clean(text string) string {
	const mark = " … (cut)"
	cut := len(text) > LineBytes
	if cut {
		text = text[:LineBytes-len(mark)]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.NewReplacer("\r", "", "\n", " ", "\x00", "\uFFFD").Replace(text)
	if cut {
		text += mark
	}
	return text
}

package buildlog

import (
	"fmt"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// How much of a log is kept, in bytes of text.
const (
	headBytes = 8 << 20
	tailBytes = 2 << 20
	LineBytes = 16 << 10
	// lineCost is added to each line's length, so that a million empty lines are
	// not free.
	lineCost = 16
)

// logCap lets through the first lines of a log and keeps back the last ones. It
// never holds more than its tail. Not safe for concurrent use.
type logCap struct {
	head, tail int // bytes that may still be let through; bytes that may be kept back
	kept       []*buildv1.LogEntry
	keptBytes  int
	leftLines  int
	leftBytes  int
	full       bool
}

func newLogCap(head, tail int) *logCap { return &logCap{head: head, tail: tail} }

// add returns the entry that can go out now, or nil when it is kept back.
func (c *logCap) add(phase, text string) *buildv1.LogEntry {
	e := &buildv1.LogEntry{Text: Clean(text), Phase: phase}
	size := cost(e)
	if !c.full && size <= c.head {
		c.head -= size
		return e
	}
	c.full = true // once a line is kept back, all later ones are, for the order
	c.kept = append(c.kept, e)
	c.keptBytes += size
	for c.keptBytes > c.tail && len(c.kept) > 0 {
		c.drop()
	}
	return nil
}

func (c *logCap) drop() {
	size := cost(c.kept[0])
	c.kept[0] = nil // the slice's array lives on; the text must not
	c.kept = c.kept[1:]
	c.keptBytes -= size
	c.leftLines++
	c.leftBytes += size
}

// end returns what was kept back, after a line that says what is missing.
func (c *logCap) end() []*buildv1.LogEntry {
	out := c.kept
	c.kept = nil
	if c.leftLines > 0 {
		text := fmt.Sprintf("… %d lines (%.1f MB) left out: the log is too long …", c.leftLines, float64(c.leftBytes)/(1<<20))
		out = append([]*buildv1.LogEntry{{Text: text}}, out...)
	}
	return out
}

func cost(e *buildv1.LogEntry) int { return len(e.GetText()) + lineCost }

// Clean is text that every reader can show: valid, without line ends, and
// not too long.
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

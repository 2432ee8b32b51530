package logs

import (
	"fmt"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// TestTail checks that a reader gets the lines after its position once, and learns that
// lines were dropped.
func TestTail(t *testing.T) {
	t.Parallel()
	one := &tail{more: make(chan struct{})}
	_, _, more := one.after(0)
	add := func(first, n int) {
		c := &buildv1.LogChunk{}
		for i := range n {
			c.Entries = append(c.Entries, &buildv1.LogEntry{Text: fmt.Sprintf("line %d", first+i)})
		}
		one.add(int64(first), c, 1000*(128+9))
	}
	add(1, 3)
	select {
	case <-more:
	default:
		t.Error("nobody is told of the first lines")
	}
	add(1, 5) // read from the start again
	if lines, gone, _ := one.after(2); gone || len(lines) != 3 || lines[0].GetOrdinal() != 3 || lines[2].GetText() != "line 5" {
		t.Errorf("behind the second line are %v (%v)", lines, gone)
	}
	if lines, gone, _ := one.after(9); gone || len(lines) != 0 {
		t.Errorf("behind a line that is yet to come are %v (%v)", lines, gone)
	}
	held, _, _ := one.after(0)
	add(6, 5000)
	if len(held) != 5 || held[0].GetText() != "line 1" {
		t.Errorf("what a reader got before is now %v", held)
	}
	if lines, gone, _ := one.after(5); !gone {
		t.Errorf("%d lines are kept beyond the bound", len(lines))
	}
	lines, gone, _ := one.after(4500)
	if gone || len(lines) != batch || lines[0].GetOrdinal() != 4501 {
		t.Errorf("behind line 4500 are %d lines (%v)", len(lines), gone)
	}
	if one.bytes > 1000*(128+9) || len(one.lines) > 1010 {
		t.Errorf("%d lines of %d bytes are kept", len(one.lines), one.bytes)
	}
}

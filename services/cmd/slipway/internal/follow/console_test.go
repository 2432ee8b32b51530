package follow

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"slipway.dev/services/client"
)

// TestTerminal checks that the last line shows the duration and is removed at the end.
func TestTerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := &Console{w: &b, live: true, phases: true, start: time.Now()}
	err := c.during(func() error {
		return errors.Join(c.show(client.Event{Kind: "log", Text: "one"}), c.show(client.Event{Kind: "phase", Text: "push"}), c.show(client.Event{Kind: "log", Text: "two"}))
	})
	const erase = "\r\x1b[K"
	want := erase + "waiting for a worker 0s" + erase + "one\nwaiting for a worker 0s" + erase + "==> push (0s)\npush 0s" + erase + "two\npush 0s" + erase
	if err != nil || b.String() != want {
		t.Errorf("got %q, %v\nwant %q", b.String(), err, want)
	}
}

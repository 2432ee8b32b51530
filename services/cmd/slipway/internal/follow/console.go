package follow

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
)

// Console shows a log while it is written. On a terminal the last line shows the current
// phase and its duration.
type Console struct {
	w      io.Writer
	live   bool // whether the last line shows the phase
	phases bool // whether phases are shown in the log
	start  time.Time

	mu    sync.Mutex
	phase string
	err   error // of the first failed write
}

// NewConsole returns a console that writes to w.
func NewConsole(w io.Writer, live, phases bool) *Console {
	return &Console{w: w, live: live, phases: phases || live, start: time.Now()}
}

// during updates the last line while work runs.
func (c *Console) during(work func() error) error {
	if !c.live {
		return work()
	}
	c.draw()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() { done <- work() }()
	for {
		select {
		case err := <-done:
			c.mu.Lock()
			defer c.mu.Unlock()
			return errors.Join(err, c.print("\r\x1b[K"))
		case <-tick.C:
			c.draw()
		}
	}
}

// event shows an event of a build.
func (c *Console) event(e client.Event) error {
	if err := c.show(e); err != nil {
		return fmt.Errorf("printing the log: %w", err)
	}
	return nil
}

func (c *Console) show(e client.Event) error {
	switch {
	case e.Kind == "log":
		return c.write(output.PlainText(e.Text) + "\n")
	case e.Kind != "phase" || c.phase == e.Text: // repeated after a reconnect
		return nil
	}
	c.mu.Lock()
	c.phase = e.Text
	c.mu.Unlock()
	if !c.phases {
		return nil
	}
	return c.write(fmt.Sprintf("==> %s (%s)\n", output.Printable(e.Text), c.elapsed()))
}

// draw writes the last line again. The next write returns its error.
func (c *Console) draw() { _ = c.write("") }

// write inserts text above the last line.
func (c *Console) write(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.live {
		return c.print(text)
	}
	phase := "waiting for a worker"
	if c.phase != "" {
		phase = output.Clip(output.Printable(c.phase))
	}
	return c.print("\r\x1b[K" + text + phase + " " + c.elapsed())
}

func (c *Console) print(text string) error {
	if c.err == nil {
		_, c.err = io.WriteString(c.w, text)
	}
	return c.err
}

func (c *Console) elapsed() string { return time.Since(c.start).Round(time.Second).String() }

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

// console shows a log while it is written. On a terminal its last line says how
// long the build has been at what.
type console struct {
	w      io.Writer
	live   bool // whether there is such a line
	phases bool // whether phases are shown in the log
	start  time.Time

	mu    sync.Mutex
	phase string
	err   error // of the first write that did not work
}

// console returns one for w.
func (s *settings) console(w io.Writer, phases bool) *console {
	live := !s.dumb && isTerminal(w)
	return &console{w: w, live: live, phases: phases || live, start: time.Now()}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// during keeps the last line alive while work is done.
func (c *console) during(work func() error) error {
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

// show takes in an event of a build.
func (c *console) show(e event) error {
	switch {
	case e.name == "log":
		return c.write(plainText(e.data) + "\n")
	case e.name != "phase" || c.phase == e.data: // one is told again after a break
		return nil
	}
	c.mu.Lock()
	c.phase = e.data
	c.mu.Unlock()
	if !c.phases {
		return nil
	}
	return c.write(fmt.Sprintf("==> %s (%s)\n", printable(e.data), c.elapsed()))
}

// draw writes the last line again. What does not work is told by the next write.
func (c *console) draw() { _ = c.write("") }

// write puts text above the last line.
func (c *console) write(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.live {
		return c.print(text)
	}
	phase := "waiting for a worker"
	if c.phase != "" {
		phase = clip(printable(c.phase))
	}
	return c.print("\r\x1b[K" + text + phase + " " + c.elapsed())
}

func (c *console) print(text string) error {
	if c.err == nil {
		_, c.err = io.WriteString(c.w, text)
	}
	return c.err
}

func (c *console) elapsed() string { return time.Since(c.start).Round(time.Second).String() }

// control is a sequence that colours text or steers a terminal.
var control = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// plainText is a line of a log without what colours it or steers a terminal.
func plainText(s string) string {
	s = control.ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

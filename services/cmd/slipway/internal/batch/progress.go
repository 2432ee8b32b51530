package batch

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows how many containers were requested and built: on a terminal on a line that is
// replaced, elsewhere on one line at the end. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	live  bool
	total int
	start time.Time

	mu                            sync.Mutex
	requested, failed, made, wait int
	err                           error // of the first failed write
}

func newProgress(w io.Writer, live bool, total int) *progress {
	return &progress{w: w, live: live, total: total, start: time.Now()}
}

// count changes the counts and shows them.
func (p *progress) count(change func(p *progress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	if p.live && p.err == nil {
		_, p.err = fmt.Fprintf(p.w, "\r\x1b[K%s", p.text())
	}
}

// end shows the final counts, and returns the error of the first failed write.
func (p *progress) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	begin := ""
	if p.live {
		begin = "\r\x1b[K"
	}
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, "%s%s\n", begin, p.text())
	}
	if p.err != nil {
		return fmt.Errorf("printing the progress: %w", p.err)
	}
	return nil
}

func (p *progress) text() string {
	text := fmt.Sprintf("%d of %d requested", p.requested, p.total)
	if p.wait > 0 {
		text += fmt.Sprintf(", %d of %d builds done", p.made, p.wait)
	}
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	return text + " (" + time.Since(p.start).Round(time.Second).String() + ")"
}

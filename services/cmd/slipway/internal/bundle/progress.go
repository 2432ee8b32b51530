package bundle

import (
	"fmt"
	"io"
	"sync"
	"time"

	"slipway.dev/services/cmd/slipway/internal/output"
)

// progress shows how many images and bytes were copied: on a terminal on a line that is replaced,
// elsewhere on one line at the end. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	live  bool
	total int
	start time.Time

	mu              sync.Mutex
	images, failed  int
	copied, present int64
	left            int64 // bytes of blobs that the receiver has
	shown           time.Time
	err             error // of the first failed write
}

func newProgress(w io.Writer, live bool, total int) *progress {
	return &progress{w: w, live: live, total: total, start: time.Now()}
}

// count changes the counts and shows them, at most ten times a second.
func (p *progress) count(change func(p *progress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	if now := time.Now(); p.live && p.err == nil && now.Sub(p.shown) > 100*time.Millisecond {
		p.shown = now
		_, p.err = fmt.Fprintf(p.w, "\r\x1b[K%s", p.text())
	}
}

// reader counts the bytes that are read.
func (p *progress) reader(r io.Reader) io.Reader {
	return io.TeeReader(r, counter(func(n int) { p.count(func(p *progress) { p.copied += int64(n) }) }))
}

type counter func(n int)

func (c counter) Write(b []byte) (int, error) {
	c(len(b))
	return len(b), nil
}

// end shows the final counts.
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
	text := fmt.Sprintf("%d of %d images, %s copied", p.images, p.total, output.BytesText(float64(p.copied)))
	if p.present > 0 {
		text += fmt.Sprintf(", %s existed", output.BytesText(float64(p.present)))
	}
	if p.left > 0 {
		text += fmt.Sprintf(", %s left out", output.BytesText(float64(p.left)))
	}
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	return text + " (" + time.Since(p.start).Round(time.Second).String() + ")"
}

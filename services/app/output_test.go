package app_test

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/bubble"
)

// reader reads a log; each element is one write.
type reader struct {
	mu     sync.Mutex
	writes []string
	// stuck is closed when a stuck reader continues.
	stuck chan struct{}
}

func (r *reader) Write(p []byte) (int, error) {
	if r.stuck != nil {
		<-r.stuck
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.writes...)
}

// TestOutput checks that the first line is written immediately, the following ones together
// and in order, errors before their caller continues, and the rest at the end.
func TestOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reader
		out := app.NewOutput(&r)
		log := app.NewLogger(out, config.Config{LogLevel: "info"})
		log.Info("one")
		synctest.Wait()
		if got := r.all(); len(got) != 1 {
			t.Errorf("a line after a pause: %q", got)
		}
		log.Info("two")
		log.Info("three")
		synctest.Wait()
		if got := r.all(); len(got) != 1 {
			t.Errorf("lines soon after another: %q", got)
		}
		bubble.Elapse(60 * time.Millisecond)
		if got := r.all(); len(got) != 2 || strings.Count(got[1], "\n") != 2 {
			t.Errorf("a moment later: %q", got)
		}
		log.Info("four")
		log.With("service", "build").Error("five")
		if got := r.all(); !strings.Contains(strings.Join(got, ""), "five") {
			t.Errorf("an error: %q", got)
		}
		log.Info("six")
		out.Close()
		log.Info("seven")
		said := strings.Join(r.all(), "")
		for _, word := range []string{"one", "two", "three", "four", "five", "six", "seven"} {
			_, after, found := strings.Cut(said, word)
			if !found {
				t.Errorf("%s is missing or out of order", word)
			}
			said = after
		}
	})
}

// TestOutputIsNotRead checks that a reader which does not read delays no caller for long,
// that memory is bounded, and that lost lines are counted.
func TestOutputIsNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := reader{stuck: make(chan struct{})}
		out := app.NewOutput(&r)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		const lines = 3 * limits.LogWaiting / 1024
		start := time.Now()
		for range lines {
			_, _ = out.Write(line)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("lines waited %s", took)
		}
		app.NewLogger(out, config.Config{}).Error("an error")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("an error waited %s", took)
		}
		lost := out.Dropped()
		if lost < lines/3 {
			t.Errorf("%d lines are counted as dropped", lost)
		}
		close(r.stuck)
		out.Close()
		if n := strings.Count(strings.Join(r.all(), ""), "x\n"); int64(n)+lost < lines || int64(n)+lost > lines+1 {
			t.Errorf("%d lines were written and %d dropped, of %d", n, lost, lines)
		}
	})
}

func BenchmarkLog(b *testing.B) {
	for name, w := range map[string]func(io.Writer) io.Writer{
		"each":     func(w io.Writer) io.Writer { return w },
		"together": func(w io.Writer) io.Writer { return app.NewOutput(w) },
	} {
		b.Run(name, func(b *testing.B) {
			read, write := pipe(b)
			go func() { _, _ = io.Copy(io.Discard, read) }()
			log := slog.New(slog.NewJSONHandler(w(write), nil))
			b.ReportAllocs()
			for b.Loop() {
				log.Info("Request", "method", "GET", "path", "/v2/library/alpine/manifests/latest", "status", 200, "ms", 1)
			}
		})
	}
}

func pipe(b *testing.B) (read, write *os.File) {
	b.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = write.Close() })
	return read, write
}

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	spans "go.opentelemetry.io/otel/trace"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/redact"
)

// NewLogger returns a logger that writes to w in the format that cfg configures: text if
// log_format is text or w is a terminal, else JSON. Lines have the ids of their trace, and
// no secrets. If w is an Output, errors are written before the call returns.
func NewLogger(w io.Writer, cfg config.Config) *slog.Logger {
	l := &slog.LevelVar{} // its zero value is info
	_ = l.UnmarshalText([]byte(cfg.LogLevel))
	out, _ := w.(*Output)
	lines := redact.NewWriter(w)
	if IsTextLog(w, cfg) {
		return slog.New(tracing{newLines(lines, l), out, l})
	}
	return slog.New(tracing{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: l}), out, l})
}

// levelOf returns the level of a logger of NewLogger, and of all loggers made from it; nil for any
// other logger.
func levelOf(log *slog.Logger) *slog.LevelVar {
	h, _ := log.Handler().(tracing)
	return h.level
}

// OpenLog returns a logger, and a function that ends it. Lines in JSON go through an
// Output; lines for a terminal are written immediately.
func OpenLog(w io.Writer, cfg config.Config) (log *slog.Logger, end func()) {
	if IsTextLog(w, cfg) {
		return NewLogger(w, cfg), func() {}
	}
	out := NewOutput(w)
	return NewLogger(out, cfg), out.Close
}

// IsTextLog reports whether the log is written in the text format.
func IsTextLog(w io.Writer, cfg config.Config) bool {
	f, _ := w.(*os.File)
	return cfg.LogFormat == "text" || cfg.LogFormat == "" && IsTerminal(f)
}

// IsTerminal reports whether f is a terminal; false for nil.
func IsTerminal(f *os.File) bool {
	if f == nil || os.Getenv("TERM") == "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// lines writes "15:04:05 INFO  What happened key=value". Safe for concurrent use.
type lines struct {
	// attrs writes the attributes to out.
	attrs slog.Handler
	out   *lineBuffer
}

// lineBuffer is shared by all handlers that write to the same place.
type lineBuffer struct {
	mu sync.Mutex
	to io.Writer
	bytes.Buffer
}

func newLines(w io.Writer, level slog.Leveler) lines {
	out := &lineBuffer{to: w}
	return lines{out: out, attrs: slog.NewTextHandler(&out.Buffer, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
				return slog.Attr{} // they begin the line
			}
			return a
		},
	})}
}

// Enabled reports whether a level is written.
func (l lines) Enabled(ctx context.Context, level slog.Level) bool {
	return l.attrs.Enabled(ctx, level)
}

// Handle writes one line.
func (l lines) Handle(ctx context.Context, r slog.Record) error {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.out.Reset()
	_, _ = fmt.Fprintf(l.out, "%s %-5s %s ", r.Time.Format(time.TimeOnly), r.Level, r.Message)
	if err := l.attrs.Handle(ctx, r); err != nil {
		return err
	}
	_, err := l.out.to.Write(l.out.Bytes())
	return err
}

// WithAttrs adds to every line.
func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lines{l.attrs.WithAttrs(attrs), l.out}
}

// WithGroup adds a group for later attributes.
func (l lines) WithGroup(name string) slog.Handler { return lines{l.attrs.WithGroup(name), l.out} }

// tracing adds the trace id of the context.
type tracing struct {
	slog.Handler
	// out is nil if lines are written immediately.
	out   *Output
	level *slog.LevelVar
}

func (h tracing) Handle(ctx context.Context, r slog.Record) error {
	if sc := spans.SpanContextFromContext(ctx); sc.HasTraceID() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()))
	}
	err := h.Handler.Handle(ctx, r)
	if h.out != nil && r.Level >= slog.LevelError {
		h.out.Flush()
	}
	return err
}

func (h tracing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracing{h.Handler.WithAttrs(attrs), h.out, h.level}
}

func (h tracing) WithGroup(name string) slog.Handler {
	return tracing{h.Handler.WithGroup(name), h.out, h.level}
}

// dropped returns the number of dropped lines; 0 for a logger that NewLogger did not
// create.
func dropped(log *slog.Logger) float64 {
	if h, ok := log.Handler().(tracing); ok && h.out != nil {
		return float64(h.out.Dropped())
	}
	return 0
}

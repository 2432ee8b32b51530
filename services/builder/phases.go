package builder

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"slipway.dev/services/builder/jobs"
)

// preparePhase is the first phase of every build, before it prints anything.
const preparePhase = "prepare"

// phases forwards a build's output, measures the duration of its phases, and adds them to
// its trace.
type phases struct {
	jobs.Output
	begin func(phase string) (end func())

	mu  sync.Mutex
	now func() // ends the current phase
}

// phases starts the first phase; the caller ends the last one.
func (m *metrics) phases(ctx context.Context, engine string, out jobs.Output) *phases {
	p := &phases{Output: out, begin: func(phase string) func() {
		start := time.Now()
		_, span := otel.Tracer("slipway.dev/builder").Start(ctx, "builder "+phase, trace.WithAttributes(attribute.String("slipway.engine", engine)))
		return func() {
			span.End()
			m.phase.WithLabelValues(engine, phase).Observe(time.Since(start).Seconds())
		}
	}}
	p.now = p.begin(preparePhase)
	return p
}

// Print implements Output.
func (p *phases) Print(phase, text string) {
	if phase != "" {
		p.mu.Lock()
		p.now()
		p.now = p.begin(phase)
		p.mu.Unlock()
	}
	p.Output.Print(phase, text)
}

func (p *phases) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now()
}

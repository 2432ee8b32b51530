package bus_test

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"slipway.dev/services/internal/bus"
)

// TestTraceAcrossStream is the only test of this package that sets the global tracer
// provider.
func TestTraceAcrossStream(t *testing.T) { //nolint:paralleltest // see above
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	otel.SetTracerProvider(provider)
	eachNATS(t, func(t *testing.T, nc *nats.Conn) {
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "jobs", Subjects: []string{"build.jobs.>"}})
		if err != nil {
			t.Fatal(err)
		}
		consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		take := func(ctx context.Context) (context.Context, func()) {
			if err := bus.Publish(ctx, js, "build.jobs.buildkit.amd64.1", []byte("x")); err != nil {
				t.Fatal(err)
			}
			m, err := consumer.Next()
			if err != nil {
				t.Fatal(err)
			}
			got, span := bus.Receive(t.Context(), m)
			return got, func() { span.End() }
		}

		ctx, span := provider.Tracer("test").Start(t.Context(), "request")
		want := span.SpanContext().TraceID()
		// A stored trace parent is enough to continue the trace.
		waited := bus.WithTraceParent(t.Context(), bus.TraceParent(ctx))
		got, end := take(waited)
		end()
		var names []string
		for _, s := range spans.Ended() {
			if s.SpanContext().TraceID() == want {
				names = append(names, s.Name())
			}
		}
		if !slices.Equal(names, []string{"publish build.jobs", "process build.jobs"}) {
			t.Errorf("the trace has the spans %q", names)
		}
		if bus.TraceParent(got) == bus.TraceParent(ctx) || bus.TraceParent(got)[:35] != bus.TraceParent(ctx)[:35] {
			t.Errorf("the trace continues as %s, after %s", bus.TraceParent(got), bus.TraceParent(ctx))
		}

		got, end = take(t.Context())
		end()
		begun := slices.ContainsFunc(spans.Started(), func(s trace.ReadWriteSpan) bool {
			return !s.Parent().IsValid() && s.Name() != "request" && s.Name() != "pull"
		})
		if bus.TraceParent(got) != "" || begun {
			t.Error("a message without a trace started one")
		}
		_, other := provider.Tracer("test").Start(t.Context(), "pull")
		bus.Link(other, bus.TraceParent(ctx))
		bus.Link(other, "")
		bus.Link(other, "odd")
		if links := other.(trace.ReadOnlySpan).Links(); len(links) != 1 || links[0].SpanContext.TraceID() != want {
			t.Errorf("the links are %v", links)
		}
	})
}

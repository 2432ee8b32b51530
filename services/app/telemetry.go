package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/semconv/v1.37.0"
	spans "go.opentelemetry.io/otel/trace"
)

// openTelemetry sends traces where the standard OpenTelemetry variables say.
// Without one of them there are trace ids, for the logs, and nothing is sent.
func (a *App) openTelemetry(ctx context.Context) error {
	options := []trace.TracerProviderOption{trace.WithSampler(trace.ParentBased(trace.NeverSample()))}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" {
		exporter, err := traceExporter(ctx)
		if err != nil {
			return fmt.Errorf("setting up OpenTelemetry: %w", err)
		}
		res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("slipwayd")), resource.WithFromEnv(), resource.WithHost())
		if err != nil {
			return fmt.Errorf("setting up OpenTelemetry: %w", err)
		}
		// The sampler is the standard one, which OTEL_TRACES_SAMPLER changes.
		options = []trace.TracerProviderOption{trace.WithBatcher(exporter), trace.WithResource(res)}
	}
	provider := trace.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	a.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return provider.Shutdown(ctx)
	})
	return nil
}

func traceExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol == "grpc" {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// NewLogger writes JSON lines to w; each carries the ids of its trace.
func NewLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	return slog.New(tracing{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})})
}

// tracing adds the trace's id to what is logged within one.
type tracing struct{ slog.Handler }

func (h tracing) Handle(ctx context.Context, r slog.Record) error {
	if sc := spans.SpanContextFromContext(ctx); sc.HasTraceID() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h tracing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracing{h.Handler.WithAttrs(attrs)}
}
func (h tracing) WithGroup(name string) slog.Handler { return tracing{h.Handler.WithGroup(name)} }

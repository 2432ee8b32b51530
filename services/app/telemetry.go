package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"slipway.dev/services/internal/redact"
)

// openTelemetry exports traces as the standard OpenTelemetry variables configure. Without
// them there are trace ids for the logs, and nothing is sent.
func (e *env) openTelemetry(ctx context.Context) (parts, error) {
	options := []trace.TracerProviderOption{trace.WithSampler(trace.ParentBased(trace.NeverSample()))}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" {
		exporter, err := traceExporter(ctx)
		if err != nil {
			return parts{}, fmt.Errorf("setting up OpenTelemetry: %w", err)
		}
		res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("slipwayd")), resource.WithFromEnv(), resource.WithHost())
		if err != nil {
			return parts{}, fmt.Errorf("setting up OpenTelemetry: %w", err)
		}
		// The sampler is the standard one, which OTEL_TRACES_SAMPLER changes.
		options = []trace.TracerProviderOption{trace.WithBatcher(secretless{exporter}), trace.WithResource(res)}
	}
	provider := trace.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	e.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return provider.Shutdown(ctx)
	})
	return parts{}, nil
}

// secretless removes secrets from spans before it exports them.
type secretless struct{ trace.SpanExporter }

// ExportSpans implements trace.SpanExporter.
func (e secretless) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	out := make([]trace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = redacted{s}
	}
	return e.SpanExporter.ExportSpans(ctx, out)
}

// redacted is a span without secrets in its strings.
type redacted struct{ trace.ReadOnlySpan }

// Name implements trace.ReadOnlySpan.
func (s redacted) Name() string { return redact.Text(s.ReadOnlySpan.Name()) }

// Attributes implements trace.ReadOnlySpan.
func (s redacted) Attributes() []attribute.KeyValue {
	return redactAttributes(s.ReadOnlySpan.Attributes())
}

// Events implements trace.ReadOnlySpan.
func (s redacted) Events() []trace.Event {
	events := slices.Clone(s.ReadOnlySpan.Events())
	for i := range events {
		events[i].Name, events[i].Attributes = redact.Text(events[i].Name), redactAttributes(events[i].Attributes)
	}
	return events
}

// Status implements trace.ReadOnlySpan.
func (s redacted) Status() trace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = redact.Text(status.Description)
	return status
}

func redactAttributes(list []attribute.KeyValue) []attribute.KeyValue {
	list = slices.Clone(list)
	for i, a := range list {
		switch a.Value.Type() {
		case attribute.STRING:
			list[i].Value = attribute.StringValue(redact.Text(a.Value.AsString()))
		case attribute.STRINGSLICE:
			texts := a.Value.AsStringSlice()
			for j := range texts {
				texts[j] = redact.Text(texts[j])
			}
			list[i].Value = attribute.StringSliceValue(texts)
		default: // numbers and booleans contain no secret
		}
	}
	return list
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

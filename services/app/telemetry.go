package app

import (
	"context"
	"fmt"
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

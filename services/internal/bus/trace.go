package bus

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceParent is the header name of W3C Trace Context.
const traceParent = "traceparent"

// headers adapts the headers of a message to a propagation.TextMapCarrier. Unlike HTTP
// headers, NATS headers are case-sensitive, and these names are in lower case.
type headers nats.Header

func (h headers) Get(key string) string { return nats.Header(h).Get(key) }
func (h headers) Set(key, value string) { nats.Header(h).Set(key, value) }
func (h headers) Keys() []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	return keys
}

// Publish publishes a message to a stream with the trace of ctx in its headers, in a span
// of that trace. It does not start a trace if ctx has none.
func Publish(ctx context.Context, js jetstream.Publisher, subject string, data []byte, opts ...jetstream.PublishOpt) error {
	m := &nats.Msg{Subject: subject, Data: data}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		_, err := js.PublishMsg(ctx, m, opts...)
		return err
	}
	ctx, span := otel.Tracer("slipway.dev/bus").Start(ctx, "publish "+subjectPrefix(subject), trace.WithSpanKind(trace.SpanKindProducer))
	defer span.End()
	m.Header = nats.Header{}
	propagation.TraceContext{}.Inject(ctx, headers(m.Header))
	_, err := js.PublishMsg(ctx, m, opts...)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// Receive continues the trace that a message was published in. The caller must end the
// span. The span is a no-op if the message has no trace.
func Receive(ctx context.Context, m jetstream.Msg) (context.Context, trace.Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, headers(m.Headers()))
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, trace.SpanFromContext(ctx)
	}
	return otel.Tracer("slipway.dev/bus").Start(ctx, "process "+subjectPrefix(m.Subject()), trace.WithSpanKind(trace.SpanKindConsumer))
}

// subjectPrefix returns the first two tokens of a subject, without the variable ones that
// follow.
func subjectPrefix(subject string) string {
	words := strings.SplitN(subject, ".", 3)
	return strings.Join(words[:min(2, len(words))], ".")
}

// TraceParent returns the trace of ctx in its text form, for storage, or "" if ctx has no
// trace.
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParent]
}

// WithTraceParent returns a context that continues a trace from TraceParent.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: parent})
}

// Link adds a link from span to a trace from TraceParent. It does nothing if parent is "" or
// invalid.
func Link(span trace.Span, parent string) {
	if sc := trace.SpanContextFromContext(WithTraceParent(context.Background(), parent)); sc.IsValid() {
		span.AddLink(trace.Link{SpanContext: sc})
	}
}

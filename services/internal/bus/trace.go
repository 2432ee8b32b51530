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

// traceParent is the header, and elsewhere the name, of W3C Trace Context.
const traceParent = "traceparent"

// headers are a message's, as the propagator wants them. Their names are in lower
// case: NATS, other than HTTP, tells upper from lower case.
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

// Publish puts a message on a stream. It takes ctx's trace along, in the headers,
// and shows there as a span; where ctx is in no trace, neither begins one.
func Publish(ctx context.Context, js jetstream.Publisher, subject string, data []byte, opts ...jetstream.PublishOpt) error {
	m := &nats.Msg{Subject: subject, Data: data}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		_, err := js.PublishMsg(ctx, m, opts...)
		return err
	}
	ctx, span := otel.Tracer("slipway.dev/bus").Start(ctx, "publish "+kind(subject), trace.WithSpanKind(trace.SpanKindProducer))
	defer span.End()
	m.Header = nats.Header{}
	propagation.TraceContext{}.Inject(ctx, headers(m.Header))
	_, err := js.PublishMsg(ctx, m, opts...)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// Receive goes on with the trace that a message was published in: what is done
// about it, until the caller ends the span, is part of that trace.
func Receive(ctx context.Context, m jetstream.Msg) (context.Context, trace.Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, headers(m.Headers()))
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, trace.SpanFromContext(ctx)
	}
	return otel.Tracer("slipway.dev/bus").Start(ctx, "process "+kind(m.Subject()), trace.WithSpanKind(trace.SpanKindConsumer))
}

// kind is a subject without what differs between messages: its first two words.
func kind(subject string) string {
	words := strings.SplitN(subject, ".", 3)
	return strings.Join(words[:min(2, len(words))], ".")
}

// TraceParent is ctx's trace as text, to be kept with something that waits; "" for
// none.
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParent]
}

// WithTraceParent goes on with a trace that TraceParent has told.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: parent})
}

// Link points from one trace to the one that TraceParent has told of; nothing for
// "".
func Link(span trace.Span, parent string) {
	if sc := trace.SpanContextFromContext(WithTraceParent(context.Background(), parent)); sc.IsValid() {
		span.AddLink(trace.Link{SpanContext: sc})
	}
}

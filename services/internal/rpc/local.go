package rpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// local is a server as it is called from its own process: unary calls run in their
// caller's goroutine and cross no connection. All else is as over the network: messages are
// encoded and decoded, of the caller's context the deadline, the end and the outgoing
// metadata arrive, and the same interceptors run. Safe for concurrent use once it serves.
type local struct {
	server  *Server
	methods map[string]method
	stats   stats.Handler
	// all ends the calls that run when the server is stopped.
	all  context.Context //nolint:containedctx // the server's own
	stop context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// method is one unary call of a registered service.
type method struct {
	room any
	desc grpc.MethodDesc
}

// begin counts a call in; false when no more are taken.
func (l *local) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.running.Add(1)
	return true
}

// drain takes no more calls, and returns when those that run have ended.
func (l *local) drain() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.running.Wait()
}

// call makes a unary call; ok is false when the server does not take it this way.
func (l *local) call(ctx context.Context, name string, req, reply any, opts []grpc.CallOption) (ok bool, err error) {
	m, known := l.methods[name]
	if !known || !l.begin() {
		return false, nil
	}
	defer l.running.Done()
	sent, err := encode(req)
	if err != nil {
		return true, err
	}
	inside, end := l.inside(ctx)
	defer end()
	t := &transport{method: name}
	inside = l.stats.TagRPC(grpc.NewContextWithServerTransportStream(inside, t), &stats.RPCTagInfo{FullMethodName: name})
	resp, err := m.desc.Handler(m.room, inside, func(in any) error { return decode(sent, in) }, l.server.unary)
	l.stats.HandleRPC(inside, &stats.End{Error: err})
	t.answer(opts)
	if err == nil {
		var got []byte
		if got, err = encode(resp); err == nil {
			err = decode(got, reply)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return true, status.FromContextError(ctx.Err()).Err()
	case l.all.Err() != nil: // as a connection that was cut says nothing of how a call ended
		return true, status.Error(codes.Unavailable, "the server was stopped while it answered")
	}
	return true, err
}

// inside is the context that a room sees: nothing of its caller's but what crosses a
// network. It ends with its caller's, and with the server.
func (l *local) inside(ctx context.Context) (context.Context, context.CancelFunc) {
	md, _ := metadata.FromOutgoingContext(ctx)
	inside, cancel := context.WithCancel(metadata.NewIncomingContext(l.all, md))
	off := context.AfterFunc(ctx, cancel)
	deadline, ok := ctx.Deadline()
	if !ok {
		return inside, func() { off(); cancel() }
	}
	inside, expire := context.WithDeadline(inside, deadline)
	return inside, func() { off(); expire(); cancel() }
}

func encode(m any) ([]byte, error) {
	raw, err := proto.Marshal(m.(proto.Message)) //nolint:forcetypeassert // generated code passes nothing else
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encoding a message: %v", err)
	}
	if len(raw) > MaxMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "the message has %d bytes; at most %d are taken", len(raw), MaxMessage)
	}
	return raw, nil
}

func decode(raw []byte, m any) error {
	if err := proto.Unmarshal(raw, m.(proto.Message)); err != nil { //nolint:forcetypeassert // generated code passes nothing else
		return status.Errorf(codes.Internal, "decoding a message: %v", err)
	}
	return nil
}

// transport takes the metadata that a room answers with.
type transport struct {
	method string

	mu              sync.Mutex
	header, trailer metadata.MD
}

// Method implements grpc.ServerTransportStream.
func (t *transport) Method() string { return t.method }

// SetHeader implements grpc.ServerTransportStream.
func (t *transport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.header = metadata.Join(t.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (t *transport) SendHeader(md metadata.MD) error { return t.SetHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (t *transport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}

// answer gives the metadata to the caller who asked for it.
func (t *transport) answer(opts []grpc.CallOption) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = t.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = t.trailer
		}
	}
}

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

// An inProcess calls a server within its process, without a connection: unary calls run in the
// caller's goroutine, and calls whose response is a stream in one goroutine. Otherwise they behave
// as over the network. Messages are encoded and
// decoded, only the deadline, the cancellation and the outgoing metadata of the caller's
// context are transmitted, and the same interceptors run. It is safe for concurrent use
// once the server serves.
type inProcess struct {
	server  *Server
	methods map[string]method
	streams map[string]streaming
	stats   stats.Handler
	// all is cancelled by stop, which ends the running calls.
	all  context.Context //nolint:containedctx // the server's own
	stop context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// A method is a unary method of a registered service.
type method struct {
	impl any
	desc grpc.MethodDesc
}

// begin registers a running call. It returns false after drain.
func (l *inProcess) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.running.Add(1)
	return true
}

// drain rejects new calls and waits for the running ones.
func (l *inProcess) drain() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.running.Wait()
}

// call makes a unary call. ok is false if the call must be made over a connection instead,
// because the method is unknown or the server is draining.
func (l *inProcess) call(ctx context.Context, name string, req, reply any, opts []grpc.CallOption) (ok bool, err error) {
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
	resp, err := m.desc.Handler(m.impl, inside, func(in any) error {
		raw := sent
		sent = nil // allows the garbage collector to free a large encoded request during the call
		return decode(raw, in)
	}, l.server.unary)
	l.stats.HandleRPC(inside, &stats.End{Error: err})
	t.deliver(opts)
	if err == nil {
		var got []byte
		if got, err = encode(resp); err == nil {
			err = decode(got, reply)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return true, status.FromContextError(ctx.Err()).Err()
	case l.all.Err() != nil: // like a closed connection, which hides the result of a call
		return true, status.Error(codes.Unavailable, "the server was stopped during the call")
	}
	return true, err
}

// inside returns the context of the handler. It contains only the values that would be
// transmitted over a network, and is cancelled with the caller's context and with the server.
func (l *inProcess) inside(ctx context.Context) (context.Context, context.CancelFunc) {
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
		return nil, status.Errorf(codes.ResourceExhausted, "the message has %d bytes, and the limit is %d", len(raw), MaxMessage)
	}
	return raw, nil
}

func decode(raw []byte, m any) error {
	if err := proto.Unmarshal(raw, m.(proto.Message)); err != nil { //nolint:forcetypeassert // generated code passes nothing else
		return status.Errorf(codes.Internal, "decoding a message: %v", err)
	}
	return nil
}

// A transport collects the metadata of the handler's response.
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

// deliver passes the metadata to the call options of the caller.
func (t *transport) deliver(opts []grpc.CallOption) {
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

package rpc

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// A streaming is a call whose response is a stream, with its implementation.
type streaming struct {
	impl any
	desc grpc.StreamDesc
}

// stream starts a call whose response is a stream. The handler runs in its own goroutine, and waits
// until the caller receives each message. done gets the error of the handler. The result ok is
// false if the server does not have the call, or was stopped.
func (l *inProcess) stream(ctx context.Context, name string, opts []grpc.CallOption, done func(error)) (_ grpc.ClientStream, ok bool) {
	m, known := l.streams[name]
	if !known || !l.begin() {
		return nil, false
	}
	inside, end := l.inside(ctx)
	p := &pipe{transport: &transport{method: name}, ctx: ctx, server: l, opts: opts, messages: make(chan []byte), begun: make(chan struct{}), ended: make(chan struct{})}
	p.start = func(req []byte) {
		go func() {
			defer l.running.Done()
			defer end()
			tagged := l.stats.TagRPC(grpc.NewContextWithServerTransportStream(inside, p), &stats.RPCTagInfo{FullMethodName: name})
			err := l.server.stream(m.impl, &handlerStream{pipe: p, ctx: tagged, req: req},
				&grpc.StreamServerInfo{FullMethod: name, IsServerStream: true}, m.desc.Handler)
			l.stats.HandleRPC(tagged, &stats.End{Error: err})
			done(err)
			p.finish(err)
		}()
	}
	p.abandoned = func() { end(); l.running.Done() }
	return p, true
}

// A pipe is a stream within a process, as its caller sees it.
type pipe struct {
	*transport
	ctx    context.Context //nolint:containedctx // grpc hands a stream its context this way
	server *inProcess
	opts   []grpc.CallOption
	// start starts the handler with the encoded request. abandoned is called instead if the
	// request cannot be encoded.
	start     func(req []byte)
	abandoned func()
	messages  chan []byte
	// begun is closed when the header is complete, and ended when the handler has ended with err.
	begun, ended chan struct{}
	begin        sync.Once
	err          error
}

// SendHeader implements grpc.ServerTransportStream and grpc.ServerStream.
func (p *pipe) SendHeader(md metadata.MD) error {
	err := p.SetHeader(md)
	p.begin.Do(func() { close(p.begun) })
	return err
}

// finish ends the stream. The caller gets err after the messages.
func (p *pipe) finish(err error) {
	p.err = err
	p.begin.Do(func() { close(p.begun) })
	close(p.ended)
}

// Context implements grpc.ClientStream.
func (p *pipe) Context() context.Context { return p.ctx }

// Header implements grpc.ClientStream.
func (p *pipe) Header() (metadata.MD, error) {
	select {
	case <-p.begun:
	case <-p.ctx.Done():
		return nil, status.FromContextError(p.ctx.Err()).Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.header, nil
}

// Trailer implements grpc.ClientStream.
func (p *pipe) Trailer() metadata.MD {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trailer
}

// CloseSend implements grpc.ClientStream. The only request is sent by SendMsg.
func (p *pipe) CloseSend() error { return nil }

// SendMsg implements grpc.ClientStream. It must be called once.
func (p *pipe) SendMsg(m any) error {
	req, err := encode(m)
	if err != nil {
		p.abandoned()
		return err
	}
	p.start(req)
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (p *pipe) RecvMsg(m any) error {
	select {
	case raw := <-p.messages:
		return decode(raw, m)
	case <-p.ended:
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
	p.deliver(p.opts)
	switch {
	case p.ctx.Err() != nil:
		return status.FromContextError(p.ctx.Err()).Err()
	case p.server.all.Err() != nil: // like a closed connection, which hides the result of a call
		return status.Error(codes.Unavailable, "the server was stopped during the call")
	case p.err == nil:
		return io.EOF
	}
	return status.Convert(p.err).Err()
}

// A handlerStream is a pipe as the handler of the call sees it.
type handlerStream struct {
	*pipe
	ctx context.Context //nolint:containedctx // grpc hands a stream its context this way
	req []byte
	// received is set when the handler has the request.
	received bool
}

// Context implements grpc.ServerStream.
func (s *handlerStream) Context() context.Context { return s.ctx }

// SetTrailer implements grpc.ServerStream.
func (s *handlerStream) SetTrailer(md metadata.MD) { _ = s.transport.SetTrailer(md) }

// RecvMsg implements grpc.ServerStream.
func (s *handlerStream) RecvMsg(m any) error {
	if s.received {
		return io.EOF
	}
	req := s.req
	s.received, s.req = true, nil
	return decode(req, m)
}

// SendMsg implements grpc.ServerStream. It waits until the caller receives the message.
func (s *handlerStream) SendMsg(m any) error {
	raw, err := encode(m)
	if err != nil {
		return err
	}
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	select {
	case s.messages <- raw:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

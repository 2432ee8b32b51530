package rpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

type guardedKey struct{}

// uploads describes a service with a client stream.
func uploads(handler grpc.StreamHandler) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: "test.Uploads", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
		{StreamName: "Put", ClientStreams: true, ServerStreams: true, Handler: handler},
	}}
}

// TestGuard verifies that no call of a guarded service, unary or streaming, reaches its
// handler before the guard allows it, and that the handler gets the guard's context.
func TestGuard(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		h := newHarness(t, rpc.ServerOptions{})
		reached := 0
		reach := func(ctx context.Context) error {
			reached++
			if ctx.Value(guardedKey{}) != "passed" {
				t.Error("the handler does not get the guard's context")
			}
			return nil
		}
		h.unary = reach
		h.stream = func(s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error { return reach(s.Context()) }
		h.server.RegisterService(uploads(func(_ any, s grpc.ServerStream) error { return reach(s.Context()) }), nil)
		h.server.Allow(rpc.Callers{{Roles: []string{"registry"}, Calls: []string{"/test.Uploads/Put"}}})
		guarded := map[string]bool{}
		guard := func(ctx context.Context, call string, req any) (context.Context, error) {
			guarded[call] = req != nil
			if !open {
				return nil, fault.Denied.Newf("Not you")
			}
			return context.WithValue(ctx, guardedKey{}, "passed"), nil
		}
		for _, service := range []string{platformv1.AccessService_ServiceDesc.ServiceName, containerv1.ContainerService_ServiceDesc.ServiceName, "test.Uploads"} {
			h.server.Guard(service, guard)
		}
		conn := h.memory(t)
		_, streamed := drain(t.Context(), conn)
		for what, err := range map[string]error{"unary": call(t.Context(), conn), "server stream": streamed, "client stream": upload(t.Context(), conn)} {
			if open && err != nil && !errors.Is(err, io.EOF) || !open && !errors.Is(err, fault.Denied) {
				t.Errorf("%s, with a guard that allows calls (%v): %v", what, open, err)
			}
		}
		if want := map[bool]int{true: 3}[open]; reached != want {
			t.Errorf("%d calls reached their handlers, want %d", reached, want)
		}
		if !guarded[platformv1.AccessService_Authorize_FullMethodName] || !guarded[containerv1.ContainerService_GetLayer_FullMethodName] || len(guarded) != 3 {
			t.Errorf("the guard saw %v", guarded)
		}
	}
}

// upload sends one message and waits for the end of the stream.
func upload(ctx context.Context, conn *grpc.ClientConn) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test.Uploads/Put")
	if err != nil {
		return err
	}
	if err := s.SendMsg(&emptypb.Empty{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return s.RecvMsg(&emptypb.Empty{})
}

package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
)

// served returns a connection of each kind to a serving harness.
func (h *harness) served(t testing.TB) map[string]*grpc.ClientConn {
	t.Helper()
	conns := map[string]*grpc.ClientConn{"memory": h.memory(t), "network": dial(t, h.listen(t), rpc.DialOptions{})}
	for _, conn := range conns {
		if err := health(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	return conns
}

// TestInProcessCall verifies that in-process calls behave like calls over the network.
func TestInProcessCall(t *testing.T) {
	t.Parallel()
	type private struct{}
	h := newHarness(t, rpc.ServerOptions{})
	for name, conn := range h.served(t) {
		h.unary = func(ctx context.Context) error {
			if ctx.Value(private{}) != nil {
				t.Errorf("%s: a value of the caller's context arrived", name)
			}
			if md, _ := metadata.FromIncomingContext(ctx); md["x-mine"][0] != "1" || md["x-outer"] != nil {
				t.Errorf("%s: the metadata is %v", name, md)
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute {
				t.Errorf("%s: the deadline is %s", name, at)
			}
			return errors.Join(grpc.SetHeader(ctx, metadata.Pairs("h", "1")), grpc.SetTrailer(ctx, metadata.Pairs("t", "2")))
		}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), private{}, 1), time.Minute)
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-outer", "1"))
		ctx = metadata.AppendToOutgoingContext(ctx, "X-Mine", "1")
		var header, trailer metadata.MD
		req := &platformv1.AuthorizeRequest{AccessToken: "token"}
		resp, err := platformv1.NewAccessServiceClient(conn).Authorize(ctx, req, grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil || resp.GetIdentity().GetUserName() != "token" || header["h"] == nil || trailer["t"] == nil {
			t.Errorf("%s: %v, %v with %v and %v", name, resp, err, header, trailer)
		}
		cancel()
	}
}

// TestInvalidMessages verifies that both kinds of connection reject the same messages.
func TestInvalidMessages(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	for name, conn := range h.served(t) {
		for _, tc := range []struct {
			what, token string
			want        codes.Code
		}{
			{"a message above the limit", strings.Repeat("x", rpc.MaxMessage+1), codes.ResourceExhausted},
			{"a string with invalid UTF-8", "\xff", codes.Internal},
		} {
			_, err := platformv1.NewAccessServiceClient(conn).Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: tc.token})
			if st := status.Convert(errors.Unwrap(err)); status.Code(err) != tc.want && st.Code() != tc.want {
				t.Errorf("%s: %s: %v", name, tc.what, err)
			}
		}
	}
}

// TestStopInProcess verifies that Stop waits for running calls, and cancels them when its
// context is done.
func TestStopInProcess(t *testing.T) {
	t.Parallel()
	for _, graceful := range []bool{true, false} {
		h := newHarness(t, rpc.ServerOptions{})
		conn := h.memory(t)
		if err := health(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		begun, finish := make(chan struct{}), make(chan struct{})
		h.unary = func(ctx context.Context) error {
			close(begun)
			select {
			case <-ctx.Done(): // the error is not returned
			case <-finish:
			}
			return nil
		}
		result := make(chan error, 1)
		go func() { result <- call(t.Context(), conn) }()
		<-begun
		ctx, cancel := context.WithCancel(t.Context())
		if graceful {
			time.AfterFunc(0, func() { close(finish) })
		} else {
			cancel()
		}
		h.server.Stop(ctx)
		cancel()
		if err := <-result; (err == nil) != graceful {
			t.Errorf("graceful %v: %v", graceful, err)
		}
		if err := call(t.Context(), conn); err == nil {
			t.Error("a stopped server accepted a call")
		}
	}
}

// TestCallerCancels verifies that cancelling a call cancels the handler's context.
func TestCallerCancels(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	conns := h.served(t)
	for name, conn := range conns {
		ctx, leave := context.WithCancel(t.Context())
		h.unary = func(ctx context.Context) error {
			leave()
			<-ctx.Done()
			return ctx.Err()
		}
		if err := call(ctx, conn); status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	h := newHarness(b, rpc.ServerOptions{})
	token := string(bytes.Repeat([]byte("x"), 500))
	for name, conn := range h.served(b) {
		platform := platformv1.NewAccessServiceClient(conn)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := platform.Authorize(b.Context(), &platformv1.AuthorizeRequest{AccessToken: token}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

func health(ctx context.Context, conn *grpc.ClientConn) error {
	resp, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if err == nil && resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = errors.New(resp.GetStatus().String())
	}
	return err
}

// fails makes both calls of h fail with err. The stream first sends a message.
func (h *harness) fails(err error) {
	h.unary = func(context.Context) error { return err }
	h.stream = func(s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
		_ = s.Send(&containerv1.GetLayerResponse{Chunk: []byte("x")})
		return err
	}
}

func TestFaultsAreTransmitted(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{
		fault.Invalid, fault.Unauthenticated, fault.Denied, fault.NotFound, fault.Conflict,
		fault.Exhausted, fault.Timeout, fault.Unsupported, fault.Unavailable,
	} {
		t.Run(kind.Error(), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, rpc.ServerOptions{})
			sent := kind.New("A public message", errors.New("secret cause")).After(3 * time.Second)
			sent.Meta = map[string]string{"limit": "5"}
			h.fails(fmt.Errorf("doing something: %w", sent))
			conn := dial(t, h.listen(t), rpc.DialOptions{})
			_, streamed := drain(t.Context(), conn)
			for _, err := range []error{call(t.Context(), conn), streamed} {
				e, ok := fault.As(err)
				if !ok || !errors.Is(err, kind) {
					t.Fatalf("got %v", err)
				}
				if e.Error() != "A public message" || e.RetryAfter != 3*time.Second {
					t.Errorf("got %q after %s", e, e.RetryAfter)
				}
				if diff := cmp.Diff(sent.Meta, e.Meta); diff != "" {
					t.Error(diff)
				}
			}
			if h.log.String() != "" {
				t.Errorf("a fault was logged: %s", h.log)
			}
		})
	}
}

func TestFaultsArePassedOn(t *testing.T) {
	t.Parallel()
	last := newHarness(t, rpc.ServerOptions{})
	last.fails(fault.NotFound.Newf("There is none"))
	onward := last.memory(t)
	middle := newHarness(t, rpc.ServerOptions{})
	middle.unary = func(ctx context.Context) error { return fmt.Errorf("calling another service: %w", call(ctx, onward)) }
	if err := call(t.Context(), middle.memory(t)); !errors.Is(err, fault.NotFound) || err.Error() != "There is none" {
		t.Errorf("got %v", err)
	}
}

func TestInternalErrorsDoNotLeak(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		fail func() error
		log  string
	}{
		{"an error", func() error { return errors.New("secret cause") }, "secret cause"},
		{"a panic", func() error { panic("secret cause") }, "panic: secret cause"},
		{"a panic with an error", func() error { panic(fault.NotFound.Newf("secret cause")) }, "panic: secret cause"},
		{"a status of the library", func() error { return status.Error(codes.Internal, "encoding: secret cause") }, "secret cause"},
		{"a status of the service", func() error { return status.Error(codes.Unknown, "secret cause") }, "secret cause"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, rpc.ServerOptions{})
			h.unary = func(context.Context) error { return tc.fail() }
			h.stream = func(grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error { return tc.fail() }
			conn := h.memory(t)
			ctx := rpc.WithCall(t.Context(), rpc.Call{RequestID: "r42"})
			_, streamed := drain(ctx, conn)
			for _, err := range []error{call(ctx, conn), streamed} {
				st, _ := status.FromError(err)
				if _, isFault := fault.As(err); isFault || st.Code() != codes.Internal || st.Message() != "Internal error" || len(st.Details()) != 0 {
					t.Errorf("got %v", err)
				}
			}
			if n := strings.Count(h.log.String(), "level=ERROR"); n != 2 {
				t.Errorf("logged %d times, want once for each call:\n%s", n, h.log)
			}
			if !strings.Contains(h.log.String(), "r42") || !strings.Contains(h.log.String(), tc.log) {
				t.Errorf("the log lacks the request or the cause:\n%s", h.log)
			}
		})
	}
}

// TestInternalErrorsAreLoggedOnce verifies that an internal error of another process is not
// logged again.
func TestInternalErrorsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	last := newHarness(t, rpc.ServerOptions{})
	last.fails(errors.New("secret cause"))
	onward := last.memory(t)
	middle := newHarness(t, rpc.ServerOptions{})
	middle.unary = func(ctx context.Context) error { return fmt.Errorf("calling another service: %w", call(ctx, onward)) }
	if err := call(t.Context(), middle.memory(t)); status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
	if middle.log.String() != "" || strings.Count(last.log.String(), "Call failed") != 1 {
		t.Errorf("logged by the caller:\n%sand by the callee:\n%s", middle.log, last.log)
	}
}

func TestEndedContexts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	conn := h.memory(t)
	h.fails(fmt.Errorf("querying the database: %w", context.DeadlineExceeded))
	err := call(t.Context(), conn)
	if e, _ := fault.As(err); !errors.Is(err, fault.Timeout) || e.Public != "The service did not respond in time; try again" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(h.log.String(), "Call timed out") {
		t.Errorf("logged %s", h.log)
	}
	h.fails(context.Canceled)
	if err := call(t.Context(), conn); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestFaultsAreNotRetried(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	calls := 0
	h.unary = func(context.Context) error { calls++; return fault.Unavailable.Newf("The registry is down") }
	if err := call(t.Context(), dial(t, h.listen(t), rpc.DialOptions{})); !errors.Is(err, fault.Unavailable) || calls != 1 {
		t.Errorf("got %v after %d calls, want one", err, calls)
	}
}

func TestStoppedServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	addr := h.listen(t)
	conn := dial(t, addr, rpc.DialOptions{})
	if err := call(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	h.server.Stop(t.Context())
	err := call(t.Context(), conn)
	if e, _ := fault.As(err); !errors.Is(err, fault.Unavailable) || strings.Contains(e.Public, addr) {
		t.Errorf("got %v, want fault.Unavailable without the address", err)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	h.fails(nil)
	if n, err := drain(t.Context(), h.memory(t)); n != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("got %d messages, %v", n, err)
	}
}

func TestStopWaitsForCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		waits bool
	}{{"until they end", true}, {"until the context is done", false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, rpc.ServerOptions{})
			begun, finish, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			h.unary = func(ctx context.Context) error {
				close(begun)
				select {
				case <-finish:
				case <-ctx.Done():
				}
				return nil
			}
			conn := h.memory(t)
			go func() { result <- call(t.Context(), conn) }()
			<-begun
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan struct{})
			go func() { h.server.Stop(ctx); close(stopped) }()
			if tc.waits {
				close(finish)
			} else {
				cancel()
			}
			if err := <-result; (err == nil) != tc.waits {
				t.Errorf("the call ended with %v", err)
			}
			<-stopped
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	conn := h.memory(t)
	if err := health(t.Context(), conn); err != nil {
		t.Errorf("before Drain: %v", err)
	}
	h.server.Drain()
	if err := health(t.Context(), conn); err == nil {
		t.Error("the health check succeeds after Drain")
	}
	if err := call(t.Context(), conn); err != nil {
		t.Errorf("a call after Drain: %v", err)
	}
}

func TestCallsAreMeasured(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	conn := h.memory(t)
	h.fails(fault.NotFound.Newf("none"))
	_ = call(t.Context(), conn)
	_, _ = drain(t.Context(), conn)
	h.fails(nil)
	_ = call(t.Context(), conn)
	want := map[string]uint64{
		"NotFound /slipway.platform.v1.AccessService/Authorize":    1,
		"NotFound /slipway.container.v1.ContainerService/GetLayer": 1,
		"OK /slipway.platform.v1.AccessService/Authorize":          1,
	}
	if diff := cmp.Diff(want, counts(t, h.reg)); diff != "" {
		t.Error(diff)
	}
}

// counts returns the numbers of measured calls by code and method.
func counts(t testing.TB, reg prometheus.Gatherer) map[string]uint64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
		}
	}
	return out
}

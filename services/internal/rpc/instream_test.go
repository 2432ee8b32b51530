package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// TestInProcessStream checks that streams within a process behave as over the network.
func TestInProcessStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	h.stream = func(s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
		if err := s.SendHeader(metadata.Pairs("h", "1")); err != nil {
			return err
		}
		s.SetTrailer(metadata.Pairs("t", "2"))
		for _, b := range []string{"a", "b", "c"} {
			if err := s.Send(&containerv1.GetLayerResponse{Chunk: []byte(b)}); err != nil {
				return err
			}
		}
		return fault.NotFound.Newf("There are no more")
	}
	for name, conn := range h.served(t) {
		var header, trailer metadata.MD
		s, err := containerv1.NewContainerServiceClient(conn).GetLayer(t.Context(), &containerv1.GetLayerRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil {
			t.Fatal(err)
		}
		if md, err := s.Header(); err != nil || md["h"] == nil {
			t.Errorf("%s: the header is %v, %v", name, md, err)
		}
		var got string
		for {
			var m *containerv1.GetLayerResponse
			if m, err = s.Recv(); err != nil {
				break
			}
			got += string(m.GetChunk())
		}
		if got != "abc" || !errors.Is(err, fault.NotFound) || header["h"] == nil || trailer["t"] == nil || s.Trailer()["t"] == nil {
			t.Errorf("%s: %q, %v, with %v and %v", name, got, err, header, trailer)
		}
	}
}

// TestInProcessStreamWaitsForReceiver checks that a handler is at most one message ahead, and that
// the messages of a stream are bounded.
func TestInProcessStreamWaitsForReceiver(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	var sent atomic.Int64
	h.stream = func(s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
		for range 5 {
			if err := s.Send(&containerv1.GetLayerResponse{Chunk: []byte("x")}); err != nil {
				return err
			}
			sent.Add(1)
		}
		return s.Send(&containerv1.GetLayerResponse{Chunk: []byte(strings.Repeat("x", rpc.MaxMessage))})
	}
	conn := h.memory(t)
	if err := health(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	s, err := containerv1.NewContainerServiceClient(conn).GetLayer(t.Context(), &containerv1.GetLayerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(5) {
		if n := sent.Load(); n > i {
			t.Errorf("%d messages are sent before %d are received", n, i)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); status.Code(err) != codes.Internal && status.Code(err) != codes.ResourceExhausted || errors.Is(err, io.EOF) {
		t.Errorf("after a message above the limit: %v", err)
	}
}

// TestInProcessStreamIsCancelled checks that a handler ends when its caller disconnects, and when
// the server stops.
func TestInProcessStreamIsCancelled(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{false, true} {
		h := newHarness(t, rpc.ServerOptions{})
		ended := make(chan error, 1)
		h.stream = func(s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
			err := s.Send(&containerv1.GetLayerResponse{})
			for err == nil {
				err = s.Send(&containerv1.GetLayerResponse{})
			}
			ended <- err
			return err
		}
		conn := h.memory(t)
		if err := health(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		s, err := containerv1.NewContainerServiceClient(conn).GetLayer(ctx, &containerv1.GetLayerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		want := codes.Canceled
		if stops {
			over, stop := context.WithCancel(t.Context())
			stop()
			h.server.Stop(over)
			want = codes.Unavailable
		} else {
			cancel()
		}
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("stops %v: the handler gets %v", stops, err)
		}
		for err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != want && status.Code(errors.Unwrap(err)) != want && !errors.Is(err, fault.Unavailable) {
			t.Errorf("stops %v: the caller gets %v", stops, err)
		}
		cancel()
	}
}

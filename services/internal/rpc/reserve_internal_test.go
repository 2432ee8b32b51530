package rpc

import (
	"context"
	"testing"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	s := &Server{}
	deadline := time.Now().Add(time.Hour)
	in, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	ctx, end, err := s.enter(in, healthv1.Health_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if got, ok := ctx.Deadline(); !ok || !got.Equal(deadline.Add(-20*time.Millisecond)) {
		t.Errorf("the deadline is %s, want 20 ms before %s", got, deadline)
	}
	ctx, end, err = s.enter(t.Context(), healthv1.Health_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if _, ok := ctx.Deadline(); ok {
		t.Error("a call without a deadline got one")
	}
}

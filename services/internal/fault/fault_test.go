package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"slipway.dev/services/internal/fault"
)

func TestFaultCrossesTheWire(t *testing.T) {
	t.Parallel()
	sent := fault.Exhausted.New("Too many pulls", errors.New("secret cause")).After(7 * time.Second)
	wrapped := fmt.Errorf("charging a pull: %w", sent)

	e, ok := fault.As(wrapped)
	if !ok {
		t.Fatal("the fault is not found in the chain")
	}
	got := fault.FromStatus(e.GRPCStatus().Err())

	if !errors.Is(got, fault.Exhausted) || errors.Is(got, fault.NotFound) {
		t.Errorf("kind is lost: %v", got)
	}
	back, _ := fault.As(got)
	if back.RetryAfter != 7*time.Second {
		t.Errorf("RetryAfter = %v, want 7s", back.RetryAfter)
	}
	if back.Error() != "Too many pulls" {
		t.Errorf("text = %q: only the public text may cross", back.Error())
	}
}

func TestPlainStatusStaysPlain(t *testing.T) {
	t.Parallel()
	in := status.Error(codes.Internal, "x")
	if got := fault.FromStatus(in); !errors.Is(got, in) {
		t.Errorf("an internal status became %v", got)
	}
	if fault.FromStatus(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestFaultInAPlace(t *testing.T) {
	t.Parallel()
	e, ok := fault.As(fault.In("name", fault.Exhausted.New("too long", io.EOF).After(time.Second)))
	if !ok || e.Public != "name: too long" || !errors.Is(e, fault.Exhausted) || !errors.Is(e, io.EOF) || e.RetryAfter != time.Second {
		t.Errorf("got %+v", e)
	}
	if err := fault.In("name", io.EOF); err != io.EOF { //nolint:errorlint // it must be the very same
		t.Errorf("a plain error became %v", err)
	}
}

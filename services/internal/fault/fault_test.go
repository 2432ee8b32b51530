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

func TestFromStatus(t *testing.T) {
	t.Parallel()
	sent := fault.Exhausted.New("Too many pulls", errors.New("secret cause")).After(7 * time.Second)
	wrapped := fmt.Errorf("charging a pull: %w", sent)

	e, ok := fault.As(wrapped)
	if !ok {
		t.Fatal("As did not find the fault")
	}
	got := fault.FromStatus(e.GRPCStatus().Err())

	if !errors.Is(got, fault.Exhausted) || errors.Is(got, fault.NotFound) {
		t.Errorf("the kind was not restored: %v", got)
	}
	back, _ := fault.As(got)
	if back.RetryAfter != 7*time.Second {
		t.Errorf("RetryAfter = %v, want 7s", back.RetryAfter)
	}
	if back.Error() != "Too many pulls" {
		t.Errorf("text = %q, want only the public message", back.Error())
	}
}

// TestFromStatusKeepsKinds checks that every kind is restored, also those that share a code.
func TestFromStatusKeepsKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{
		fault.Invalid, fault.Unauthenticated, fault.Denied, fault.NotFound, fault.Conflict, fault.Exhausted, fault.Full, fault.Timeout,
		fault.Unsupported, fault.Unavailable,
	} {
		got, ok := fault.As(fault.FromStatus(kind.Newf("text").GRPCStatus().Err()))
		if !ok || got.Kind != kind {
			t.Errorf("%v was restored as %+v", kind, got)
		}
	}
}

func TestFromStatusKeepsOtherErrors(t *testing.T) {
	t.Parallel()
	in := status.Error(codes.Internal, "x")
	if got := fault.FromStatus(in); !errors.Is(got, in) {
		t.Errorf("an internal status was converted to %v", got)
	}
	if fault.FromStatus(nil) != nil {
		t.Error("FromStatus(nil) returned an error")
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	e, ok := fault.As(fault.In("name", fault.Exhausted.New("too long", io.EOF).After(time.Second)))
	if !ok || e.Public != "name: too long" || !errors.Is(e, fault.Exhausted) || !errors.Is(e, io.EOF) || e.RetryAfter != time.Second {
		t.Errorf("got %+v", e)
	}
	if err := fault.In("name", io.EOF); err != io.EOF { //nolint:errorlint // it must be the very same
		t.Errorf("an error without a fault was changed to %v", err)
	}
}

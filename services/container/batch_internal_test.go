package container

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// TestBatchOutOfTime checks that requests of a batch that has taken too long fail with an error
// that states what to do.
func TestBatchOutOfTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := (&Service{}).submitSafely(ctx, &containerv1.ContainerRequest{}); !errors.Is(err, fault.Timeout) {
		t.Errorf("got %v", err)
	}
}

// TestBatchResultsAreCounted checks that operators see requests that fail within a successful call.
func TestBatchResultsAreCounted(t *testing.T) {
	t.Parallel()
	s := &Service{}
	_, s.results = newBatches(prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := codes.Code(s.result(ctx, &containerv1.ContainerRequest{}).GetError().GetCode())
	if n := testutil.ToFloat64(s.results.WithLabelValues(got.String())); got == codes.OK || n != 1 {
		t.Errorf("%v is counted %v times", got, n)
	}
}

// TestBatchErrorsAreBounded checks that the errors of a thousand requests fit into a response.
func TestBatchErrorsAreBounded(t *testing.T) {
	t.Parallel()
	for size, kept := range map[int]bool{100: true, limits.BatchDetails + 1: false} {
		text := strings.Repeat("x", size)
		detail := &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(text)}}
		st := bounded(fault.Invalid.Newf("%s", text).WithDetail(detail).GRPCStatus().Proto())
		if len(st.GetMessage()) > limits.BatchMessage+len("…") || len(st.GetDetails()) != map[bool]int{true: 2, false: 1}[kept] {
			t.Errorf("an error of %d bytes has a message of %d and %d details", size, len(st.GetMessage()), len(st.GetDetails()))
		}
	}
}

// TestBatchDetails checks that equal requests have the details of their error once, that all
// together are bounded, and that codes stay.
func TestBatchDetails(t *testing.T) {
	t.Parallel()
	detail := &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(strings.Repeat("x", 1000))}}
	failed := &containerv1.ContainerResult{Error: fault.Exhausted.Newf("Too many").After(time.Second).WithDetail(detail).GRPCStatus().Proto()}
	equal := results([]int{3, 4, 5}, failed)
	left := trim(equal, 1500)
	if left >= 500 || left < 300 {
		t.Errorf("%d bytes are left", left)
	}
	other := results([]int{6}, failed)
	if again := trim(other, left); again != left {
		t.Errorf("%d of %d bytes are left after details that do not fit", again, left)
	}
	for i, want := range []int{3, 2, 2, 2} {
		r := append(equal, other...)[i] //nolint:gocritic // a new list
		if got := len(r.GetError().GetDetails()); got != want {
			t.Errorf("result %d has %d details, want %d", r.GetIndex(), got, want)
		}
	}
	if n := len(failed.GetError().GetDetails()); n != 3 {
		t.Errorf("the error has %d details afterwards", n)
	}
}

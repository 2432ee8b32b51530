package container

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
)

// known answers dry runs alone.
type known struct {
	buildv1.BuildServiceClient
	cached bool
	err    error
}

func (k known) SubmitBuild(_ context.Context, req *buildv1.SubmitBuildRequest, _ ...grpc.CallOption) (*buildv1.SubmitBuildResponse, error) {
	if !req.GetDryRun() {
		return nil, fault.Invalid.Newf("it was to be asked, not made")
	}
	return &buildv1.SubmitBuildResponse{Cached: k.cached}, k.err
}

// TestWhatIsThereIsFound: an image that was built, or is being built, is served though
// its packages could not be solved today.
func TestWhatIsThereIsFound(t *testing.T) {
	t.Parallel()
	for want, in := range map[bool][]known{true: {{cached: true}}, false: {{}, {err: fault.Unavailable.Newf("x")}}} {
		for _, k := range in {
			b := &buildv1.SubmitBuildRequest{}
			if got := (&Service{deps: Deps{Build: k}}).isMade(t.Context(), b); got != want || b.GetDryRun() {
				t.Errorf("%+v: %v, and the request is %v", k, got, b)
			}
		}
	}
}

package build_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// people is a platform with an administrator and another user, whose tokens are their
// names.
type people struct {
	platformv1.AccessServiceClient
}

func (people) Authorize(_ context.Context, req *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	switch req.GetAccessToken() {
	case "grace":
		return &platformv1.AuthorizeResponse{Administrator: true}, nil
	case "ada":
		return &platformv1.AuthorizeResponse{}, nil
	}
	return nil, fault.Unauthenticated.Newf("The token is not known")
}

// TestQueue checks that only the administrator sees the queue, including kinds without
// builds, and the workers.
func TestQueue(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	p.platform = people{}
	r := p.replica(t, 100)
	w := newWorker(t, p, 2)
	for _, text := range []string{"one", "two", "three"} {
		r.submit(t, p.request(text, "", nil))
	}
	w.take(t, r, 1)
	as := func(token string) (*buildv1.GetQueueResponse, error) {
		return r.GetQueue(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), &buildv1.GetQueueRequest{})
	}
	for token, want := range map[string]error{"ada": fault.Denied, "eve": fault.Unauthenticated} {
		if got, err := as(token); !errors.Is(err, want) {
			t.Errorf("%s is shown %v, %v", token, got, err)
		}
	}
	if got, err := r.GetQueue(t.Context(), &buildv1.GetQueueRequest{}); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("somebody without a token is shown %v, %v", got, err)
	}
	got, err := as("grace")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetBacklog()) != 2 || len(got.GetWorkers()) == 0 {
		t.Fatalf("the queue is %v", got)
	}
	busy, idle := got.GetBacklog()[0], got.GetBacklog()[1]
	if busy.GetArchitecture() != "amd64" || busy.GetQueued() != 2 || busy.GetRunning() != 1 || !busy.GetWaitingSince().AsTime().Equal(p.clock()) {
		t.Errorf("what is busy is shown as %v", busy)
	}
	if idle.GetArchitecture() != "arm64" || idle.GetQueued() != 0 || idle.GetRunning() != 0 || idle.WaitingSince != nil {
		t.Errorf("what is idle is shown as %v", idle)
	}
	for _, worker := range got.GetWorkers() {
		if worker.GetName() == "test" && worker.GetSlots() == 2 && len(worker.GetMakes()) == 2 {
			return
		}
	}
	t.Errorf("the workers are %v", got.GetWorkers())
}

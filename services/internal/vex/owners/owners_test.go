package owners_test

import (
	"context"
	"errors"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/vex/owners"
)

const document = `{"@context":"https://openvex.dev/ns/v0.2.0","statements":[{"vulnerability":"CVE-1","products":["pkg:a/b"],"status":"fixed"}]}`

// TestReader checks that documents are only read again after a change, and for each caller.
func TestReader(t *testing.T) {
	t.Parallel()
	versions, sent := map[int64]string{1: "a"}, 0
	var fails error
	r := owners.New(func(_ context.Context, who caller.ID, known string) (owners.Response, error) {
		out := &platformv1.GetVexResponse{Version: versions[who.UserID]}
		if out.GetVersion() != known {
			sent++
			out.Documents = []*platformv1.AppliedVex{{Name: "user/x", Content: document}}
		}
		return out, fails
	})
	want := func(user int64, sets, total int) {
		t.Helper()
		got, err := r.Of(t.Context(), caller.ID{Endpoint: "x", UserID: user, Repositories: "a/*"})
		if err != nil || len(got) != sets || sent != total {
			t.Errorf("user %d: %d documents, %v; they were sent %d times, want %d", user, len(got), err, sent, total)
		}
	}
	want(1, 1, 1)
	want(1, 1, 1)
	want(2, 0, 1)
	versions[1] = "b"
	want(1, 1, 2)
	versions[2] = "b"
	want(2, 1, 3)
	delete(versions, 1)
	want(1, 1, 4)
	want(1, 1, 4)
	fails = fault.Unavailable.Newf("The platform is not available")
	if got, err := r.Of(t.Context(), caller.ID{Endpoint: "x", UserID: 1}); !errors.Is(err, fault.Unavailable) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

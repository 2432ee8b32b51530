package build_test

import (
	"fmt"
	"net/netip"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// TestAnonymousBuildsLeaveSlots checks that builds of many addresses neither occupy every slot
// nor wait on the bus ahead of a user's.
func TestAnonymousBuildsLeaveSlots(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	p.reserve = true
	r := p.replica(t, 100)
	w := newWorker(t, p, 2)
	strangers := map[string]bool{}
	for n := range 10 {
		ctx := rpc.WithCall(t.Context(), rpc.Call{ClientIP: netip.AddrFrom4([4]byte{192, 0, byte(n), 1})})
		got, err := r.SubmitBuild(ctx, p.request(fmt.Sprint("sleep ", n), "", nil))
		if err != nil {
			t.Fatal(err)
		}
		strangers[got.GetBuildId()] = true
	}
	sleeps := w.take(t, r, 1)
	if !strangers[sleeps.id] {
		t.Fatalf("%s was taken first", sleeps.id)
	}
	mine := r.submit(t, p.request("of a user", "", &platformv1.Identity{Endpoint: "e", UserId: 7}))
	if j := w.take(t, r, 1); j.id != mine.GetBuildId() {
		t.Errorf("the build of a user waits for %s", j.id)
	}
	sleeps.succeed(t, "sha256:x")
	sleeps.ended(t, r)
	if j := w.take(t, r, 1); !strangers[j.id] {
		t.Errorf("afterwards %s is taken", j.id)
	}
}

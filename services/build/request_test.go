package build_test

import (
	"errors"
	"fmt"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestListLockedPackages checks that the packages of a build are listed once it has made its image, and
// that the request of a build has the locks of its parts.
func TestListLockedPackages(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		submit := func(text string) string {
			req := p.request(text, "", nil)
			req.Lock = lockOf("linux/amd64", "linux-64")
			return r.submit(t, req).GetBuildId()
		}
		list := func(ids ...string) []*buildv1.LockedBuild {
			t.Helper()
			out, err := r.ListLockedPackages(t.Context(), &buildv1.ListLockedPackagesRequest{BuildIds: ids})
			if err != nil {
				t.Fatal(err)
			}
			return out.GetBuilds()
		}
		id := submit("made")
		if got := list(id); len(got) != 0 {
			t.Errorf("a pending build has %v", got)
		}
		j := w.take(t, r, 1)
		j.succeed(t, p.push(t, p.request("made", "", nil), j.id))
		j.ended(t, r)
		failed := submit("failed")
		j = w.take(t, r, 1)
		j.report(t, &buildv1.Result{Reason: "build"})
		j.ended(t, r)
		got := list("0000000000000000_1", failed, id)
		if len(got) != 3 || len(got[0].GetPackages()) != 0 || len(got[1].GetPackages()) != 0 || got[2].GetBuildId() != id || len(got[2].GetPackages()) != 1 {
			t.Fatalf("got %v", got)
		}
		if one := got[2].GetPackages()[0]; one.GetName() != "libzlib" || one.GetVersion() != "1.3.1" || one.GetKind() != "conda" {
			t.Errorf("the package is %v", one)
		}
		var many []string
		for i := range limits.LockedBuilds + 1 {
			many = append(many, fmt.Sprintf("0000000000000000_%d", i))
		}
		if _, err := r.ListLockedPackages(t.Context(), &buildv1.ListLockedPackagesRequest{BuildIds: many}); !errors.Is(err, fault.Invalid) {
			t.Errorf("too many builds: %v", err)
		}

		pair := p.request("pair", "", nil)
		pair.Recipe.Engine = "index"
		one, two := p.request("one", "", nil), p.request("two", "", nil)
		one.Lock, two.Lock = lockOf("linux/amd64", "linux-64"), lockOf("linux/arm64", "linux-aarch64")
		pair.Parts = []*buildv1.SubmitBuildRequest{one, two}
		resp, err := r.GetBuildRequest(t.Context(), &buildv1.GetBuildRequestRequest{BuildId: r.submit(t, pair).GetBuildId()})
		if parts := resp.GetRequest().GetParts(); err != nil || resp.GetUnsolved() || len(parts) != 2 || parts[1].GetLock().GetSubdirs()[0] != "linux-aarch64" {
			t.Errorf("the request is %v, %v", resp, err)
		}
		if _, err := r.GetBuildRequest(t.Context(), &buildv1.GetBuildRequestRequest{BuildId: "0000000000000000_1"}); !errors.Is(err, fault.NotFound) {
			t.Errorf("an unknown build: %v", err)
		}
		w.appear(t, 1, canConda)
		unsolved := r.submit(t, p.unsolved("unsolved", nil)).GetBuildId()
		if resp, err := r.GetBuildRequest(t.Context(), &buildv1.GetBuildRequestRequest{BuildId: unsolved}); err != nil || !resp.GetUnsolved() || resp.GetRequest().GetLock() != nil {
			t.Errorf("an unsolved build: %v, %v", resp, err)
		}
	})
}

package conda

import (
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
)

// TestReasonsBounded checks the memory and the size of the response for a crafted lock: a long
// chain of packages, each of which also depends on the same package.
func TestReasonsBounded(t *testing.T) {
	const packages = 10_000
	l := lock{solution: &solver.Solution{}}
	for i := range packages {
		r := spec.Record{Name: fmt.Sprintf("p%05d", i), Version: "1", Depends: []string{fmt.Sprintf("p%05d", i+1), "target"}, Constrains: []string{"target <9"}}
		l.solution.Records = append(l.solution.Records, r)
	}
	l.solution.Records = append(l.solution.Records, spec.Record{Name: "target", Version: "1"})
	g := graphOf(l)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := g.reasons([]spec.MatchSpec{{Name: "p00000"}}, "target")
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 100 {
		t.Errorf("it allocates %d MiB", allocated)
	}
	steps := 0
	for i, c := range out.GetChains() {
		if steps += len(c.GetSteps()); len(c.GetSteps()) != i+2 {
			t.Fatalf("chain %d has %d steps", i, len(c.GetSteps()))
		}
	}
	if len(out.GetChains()) < 100 || steps > limits.CondaChainSteps || proto.Size(out) > 2*limits.CondaChainsSize || out.GetDependents() != packages || len(out.GetConstraints()) > limits.CondaChains {
		t.Errorf("%d chains, %d steps, %d bytes, %d dependents, %d constraints", len(out.GetChains()), steps, proto.Size(out), out.GetDependents(), len(out.GetConstraints()))
	}
}

// TestConstraintsBounded checks the limit on the total size of constraints.
func TestConstraintsBounded(t *testing.T) {
	t.Parallel()
	long := "target <9"
	for len(long) < 100_000 {
		long += "," + long[len("target "):]
	}
	l := lock{solution: &solver.Solution{Records: []spec.Record{{Name: "target"}}}}
	for i := range 100 {
		l.solution.Records = append(l.solution.Records, spec.Record{Name: fmt.Sprint("p", i), Constrains: []string{long}, Depends: []string{long}})
	}
	if out := graphOf(l).reasons([]spec.MatchSpec{{Name: "p1"}}, "target"); proto.Size(out) > 2*limits.CondaChainsSize+1000 {
		t.Errorf("the answer has %d bytes", proto.Size(out))
	}
}

// TestLockKeepsItsPlace checks that the resources reserved for reading a lock are held until
// the query is released, if the response needs the lock.
func TestLockKeepsItsPlace(t *testing.T) {
	t.Parallel()
	const text = "@EXPLICIT\nhttps://conda.anaconda.org/conda-forge/noarch/a-1-0.conda#0123456789abcdef0123456789abcdef\n"
	s := &Service{shares: newShares()}
	for _, keep := range []bool{true, false} {
		q := &query{lock: &requestLock{field: "packages.environment", text: text}, keep: keep}
		if _, err := s.useLock(t.Context(), caller.ID{}, q); err != nil {
			t.Fatal(err)
		}
		if (q.kept != nil) != keep {
			t.Errorf("keep is %t, kept %v", keep, q.kept)
		}
		q.release()
		if q.kept != nil {
			t.Error("it is kept after the release")
		}
	}
	q := &query{lock: &requestLock{field: "packages.environment", text: "@EXPLICIT\nx\n"}, keep: true}
	if _, err := s.useLock(t.Context(), caller.ID{}, q); err == nil || q.kept != nil {
		t.Errorf("%v, kept %v", err, q.kept)
	}
}

package conda_test

import (
	"slices"
	"strings"
	"testing"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
)

// TestSolveHeld checks that only the named packages of a lock change if that is possible, and that
// the response otherwise states which others must change.
func TestSolveHeld(t *testing.T) {
	t.Parallel()
	service, at := startUpdatable(t)
	for name, c := range map[string]struct {
		entries   []string
		mayChange []string
		want      string
		changes   string
	}{
		"the newest version that fits":  {[]string{"tool"}, nil, "base=1 lib=1 tool=1", ""},
		"a dependency":                  {[]string{"base"}, nil, "base=2 lib=1 tool=1", "base"},
		"a version that moves another":  {[]string{"tool=2"}, nil, "base=1 lib=2 tool=2", "lib tool"},
		"the newest, if lib may change": {[]string{"tool"}, []string{"lib"}, "base=1 lib=1 tool=1", ""},
		"a version, if lib may change":  {[]string{"tool=2"}, []string{"lib"}, "base=1 lib=2 tool=2", "lib tool"},
	} {
		got, err := service.SolvePackages(t.Context(), &condav1.SolvePackagesRequest{
			Hold: true, MayChange: c.mayChange,
			Lock: &condav1.LockQuery{Packages: &condav1.CondaPackages{Type: "CONDA", Entries: c.entries}, From: lockFile(updatableLock(at), "")},
		})
		if err != nil || len(got.GetRecords()) != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		packages := strings.Fields(chosen(got.GetAnswer()))
		slices.Sort(packages)
		var changes []string
		for _, p := range got.GetAnswer().GetLocks()[0].GetChanges() {
			changes = append(changes, p.GetName())
		}
		if strings.Join(packages, " ") != c.want || strings.Join(changes, " ") != c.changes {
			t.Errorf("%s: %v, want %s; changes %v", name, packages, c.want, changes)
		}
	}
}

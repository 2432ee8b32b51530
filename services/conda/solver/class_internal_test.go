package solver

import (
	"errors"
	"fmt"
	"testing"

	"slipway.dev/services/conda/spec"
)

// conflictingVersions returns a problem in which every version of a package needs two incompatible
// packages, with the given number of builds per version.
func conflictingVersions(builds int) *Problem {
	source := memory{}
	put := func(name string, version, builds int, needs ...string) {
		for b := range builds {
			r := spec.Record{Name: name, Version: fmt.Sprint(version), Build: fmt.Sprint("b", b), Depends: needs}
			r.FileName = fmt.Sprintf("%s-%s-%s.conda", r.Name, r.Version, r.Build)
			source[name] = append(source[name], r)
		}
	}
	for version := range 20 {
		put("tool", version, builds, fmt.Sprintf("left %d", version), fmt.Sprintf("right %d", version))
		put("left", version, 1, fmt.Sprintf("base >=%d", version), "base <50")
		put("right", version, 1, fmt.Sprintf("base >=%d", 50+version))
		put("base", version, 1)
		put("base", 50+version, 1)
	}
	return &Problem{Channels: []Channel{{Name: "c", Sources: []Source{source}}}, Specs: []spec.MatchSpec{{Name: "tool"}}}
}

// TestEqualBuildsAreLearntTogether checks that additional equal builds do not make a
// problem harder.
func TestEqualBuildsAreLearntTogether(t *testing.T) {
	t.Parallel()
	learnt := func(builds int) int {
		p := conflictingVersions(builds)
		s := newSearch(t.Context(), newLibrary(p), p.Specs)
		if err := s.solve(); !errors.Is(err, errNone) {
			t.Fatal(err)
		}
		return len(s.learnt)
	}
	if one, ten := learnt(1), learnt(10); one < 10 || ten > one+one/2 {
		t.Errorf("learnt %d clauses with one build each, %d with ten", one, ten)
	}
}

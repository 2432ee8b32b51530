package solver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// hostile is a source that makes the solver use a lot of memory.
type hostile map[string][]spec.Record

func (h hostile) Records(name string) ([]spec.Record, error) { return h[name], nil }

// many returns n records of b that differ only in their build.
func many(n int) []spec.Record {
	out := make([]spec.Record, n)
	for i := range out {
		build := fmt.Sprintf("%s%d", strings.Repeat("a", 240), i)
		out[i] = spec.Record{Name: "b", Version: "1", Build: build, FileName: "b-1-" + build + ".conda", Channel: "c", Subdir: "noarch"}
	}
	return out
}

func asking(depends ...string) spec.Record {
	return spec.Record{Name: "a", Version: "1", Build: "0", FileName: "a-1-0.conda", Channel: "c", Subdir: "noarch", Depends: depends}
}

// TestHostileDependencies checks that a package with ten thousand different dependencies on
// another package, each matching all of its records, is rejected before it uses much
// memory.
//
//nolint:paralleltest // it measures what is allocated meanwhile
func TestHostileDependencies(t *testing.T) {
	var depends []string
	for i := range 10_000 {
		depends = append(depends, fmt.Sprintf("b >=0.%d", i))
	}
	p := Problem{
		Specs:    []spec.MatchSpec{{Name: "a"}},
		Channels: []Channel{{Name: "c", Sources: []Source{hostile{"a": {asking(depends...)}, "b": many(20_000)}}}},
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Solve(t.Context(), p)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*limits.CondaMemory {
		t.Errorf("allocated %d MB", n>>20)
	}
}

// TestHostilePattern checks that a context stops the matching of an expensive dependency.
func TestHostilePattern(t *testing.T) {
	t.Parallel()
	p := Problem{
		Specs: []spec.MatchSpec{{Name: "a"}},
		Channels: []Channel{{Name: "c", Sources: []Source{hostile{
			"a": {asking(`b[build="^((a?){10}){10}b$"]`)}, "b": many(20_000),
		}}}},
	}
	s := newSearch(t.Context(), newLibrary(&p), p.Specs)
	asked, errEnough := 0, errors.New("enough")
	s.over = func() error {
		if asked++; asked > 20 {
			return errEnough
		}
		return nil
	}
	start := time.Now()
	if err := s.solve(); !errors.Is(err, errEnough) {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

// TestHonestMemory checks that ordinary environments use far less memory than the limit.
func TestHonestMemory(t *testing.T) {
	t.Parallel()
	p := Problem{Specs: []spec.MatchSpec{{Name: "b"}}, Channels: []Channel{{Name: "c", Sources: []Source{hostile{"b": many(5000)}}}}}
	l := newLibrary(&p)
	if err := newSearch(t.Context(), l, p.Specs).solve(); err != nil {
		t.Fatal(err)
	}
	if l.taken == 0 || l.taken > limits.CondaMemory/20 {
		t.Errorf("5,000 records use %d of %d bytes", l.taken, int64(limits.CondaMemory))
	}
}

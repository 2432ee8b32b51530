package solver

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// explain finds why a search has no solution: a minimal set of unsatisfiable
// specifications, and a minimal set of dependencies that proves it. The error is a
// *Conflict, the error of ctx, or that of a source.
func explain(ctx context.Context, failed *search) error {
	within, cancel := context.WithTimeout(ctx, limits.CondaExplain)
	defer cancel()
	few, edges := failed.specs, failed.edges()
	all := setOf(edges)
	few = smallest(within, few, func(specs []spec.MatchSpec) bool {
		return isUnsatisfiable(within, failed.library, specs, all)
	})
	edges = smallest(within, edges, func(keep []edge) bool {
		return isUnsatisfiable(within, failed.library, few, setOf(keep))
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if within.Err() != nil {
		// The remaining dependencies may not be the cause.
		edges = nil
	}
	return newConflict(newSearch(ctx, failed.library, few), edges)
}

// smallest returns a subset of a list for which holds is true, as small as possible. It
// removes large pieces first. When ctx ends, it returns the smallest subset found so far.
func smallest[T any](ctx context.Context, list []T, holds func([]T) bool) []T {
	for size := max(1, len(list)/2); len(list) > 0; size /= 2 {
		for from := 0; from < len(list) && ctx.Err() == nil; {
			to := min(len(list), from+size)
			rest := slices.Concat(list[:from], list[to:])
			if holds(rest) {
				list = rest
				continue
			}
			from = to
		}
		if size == 1 {
			break
		}
	}
	return list
}

func setOf(edges []edge) map[edge]bool {
	out := make(map[edge]bool, len(edges))
	for _, e := range edges {
		out[e] = true
	}
	return out
}

// isUnsatisfiable reports whether the specifications are unsatisfiable when only some
// dependencies count. It returns false if that takes too long.
func isUnsatisfiable(ctx context.Context, l *library, specs []spec.MatchSpec, only map[edge]bool) bool {
	if ctx.Err() != nil {
		return false
	}
	one, cancel := context.WithTimeout(ctx, limits.CondaExplain/8)
	defer cancel()
	s := newSearch(one, l, specs)
	s.only = only
	return errors.Is(s.solve(), errNone)
}

// edges returns the dependencies that a search encoded. They suffice to prove its result.
func (s *search) edges() []edge {
	seen := map[edge]bool{}
	for v := range s.implies {
		of := &s.variables[v]
		if of.kind != ofRecord {
			continue
		}
		r := of.pkg.records[v-of.pkg.first]
		for _, text := range r.Depends {
			seen[edge{from: r.Name, to: nameOf(text)}] = true
		}
		for _, text := range r.Constrains {
			seen[edge{from: r.Name, to: nameOf(text), bars: true}] = true
		}
	}
	out := make([]edge, 0, len(seen))
	for e := range seen {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), compareBool(a.bars, b.bars))
	})
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

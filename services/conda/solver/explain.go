package solver

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/limits"
)

// explain finds out why a search found no solution: the fewest of the request's
// specifications that cannot hold together, and the fewest dependencies that say so.
// The error is a *Conflict, or ctx's or a source's.
func explain(ctx context.Context, failed *search) error {
	within, cancel := context.WithTimeout(ctx, limits.CondaExplain)
	defer cancel()
	few, edges := failed.specs, failed.edges()
	all := setOf(edges)
	few = smallest(within, few, func(specs []conda.MatchSpec) bool {
		return isUnsatisfiable(within, failed.library, specs, all)
	})
	edges = smallest(within, edges, func(keep []edge) bool {
		return isUnsatisfiable(within, failed.library, few, setOf(keep))
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if within.Err() != nil {
		// What is left need not be the reason.
		edges = nil
	}
	return tell(newSearch(ctx, failed.library, few), edges)
}

// smallest leaves out what it can of a list that holds, so that it still holds: large
// pieces first. It stops when ctx ends, with what it has.
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

// isUnsatisfiable solves with some dependencies only. Where that takes too long the
// answer is no.
func isUnsatisfiable(ctx context.Context, l *library, specs []conda.MatchSpec, only map[edge]bool) bool {
	if ctx.Err() != nil {
		return false
	}
	one, cancel := context.WithTimeout(ctx, limits.CondaExplain/8)
	defer cancel()
	s := newSearch(one, l, specs)
	s.only = only
	return errors.Is(s.solve(), errNone)
}

// edges are the dependencies that a search looked at, which is enough for its answer.
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

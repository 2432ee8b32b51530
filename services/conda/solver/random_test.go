package solver_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
)

const (
	randomNames    = 6
	randomVersions = 3
)

// random returns a small channel with many contradictions.
func random(draw *rand.Rand) []spec.Record {
	var all []spec.Record
	for n := range randomNames {
		for v := range randomVersions {
			r := made(fmt.Sprintf("n%d %d", n, v+1))
			for range draw.IntN(4) {
				r.Depends = append(r.Depends, randomSpec(draw, n))
			}
			if draw.IntN(3) == 0 {
				r.Constrains = append(r.Constrains, randomSpec(draw, n))
			}
			all = append(all, r)
		}
	}
	return all
}

// randomSpec returns a specification of any name except not.
func randomSpec(draw *rand.Rand, not int) string {
	name := draw.IntN(randomNames)
	if name == not {
		name = (name + 1) % randomNames
	}
	ops := []string{"", " >=2", " <=2", " 1", " 3", " !=2", " 2"}
	return fmt.Sprintf("n%d%s", name, ops[draw.IntN(len(ops))])
}

// exists reports whether a problem has a solution, by trying every environment.
func exists(p *solver.Problem, all []spec.Record) bool {
	var try func(name int, chosen []spec.Record) bool
	try = func(name int, chosen []spec.Record) bool {
		if name == randomNames {
			return holds(p, chosen)
		}
		if try(name+1, chosen) {
			return true
		}
		for v := range randomVersions {
			if try(name+1, append(chosen[:len(chosen):len(chosen)], all[name*randomVersions+v])) {
				return true
			}
		}
		return false
	}
	return try(0, nil)
}

func holds(p *solver.Problem, chosen []spec.Record) bool {
	by := map[string]*spec.Record{}
	for i := range chosen {
		by[chosen[i].Name] = &chosen[i]
	}
	for _, wanted := range p.Specs {
		if r := by[wanted.Name]; r == nil || !wanted.Match(r) {
			return false
		}
	}
	for _, r := range by {
		if verifyDependencies(by, r) != nil {
			return false
		}
	}
	return true
}

// TestRandomProblems compares the solver with an exhaustive search on small problems.
func TestRandomProblems(t *testing.T) {
	t.Parallel()
	solved, not := 0, 0
	for seed := range uint64(60) {
		draw := rand.New(rand.NewPCG(seed, 14))
		all := random(draw)
		p := solver.Problem{Channels: []solver.Channel{channel("c", all...)}}
		for range 1 + draw.IntN(3) {
			p.Specs = append(p.Specs, specs(t, randomSpec(draw, -1))...)
		}
		for i := range all {
			all[i].Channel = "c"
		}
		want := exists(&p, all)
		got, err := solver.Solve(t.Context(), p)
		var conflict *solver.Conflict
		switch {
		case err == nil && !want:
			t.Errorf("seed %d: solved an unsatisfiable problem", seed)
		case err == nil:
			solved++
			if err := verify(&p, got); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		case !errors.As(err, &conflict):
			t.Errorf("seed %d: %v", seed, err)
		case want:
			t.Errorf("seed %d: %v is satisfiable, got conflict %v", seed, p.Specs, conflict)
		default:
			not++
			checkCore(t, p, all, conflict)
		}
	}
	if solved < 20 || not < 20 {
		t.Errorf("%d were solved and %d were not: too few for a conclusion", solved, not)
	}
}

// checkCore checks that the specifications in a conflict are unsatisfiable.
func checkCore(t *testing.T, p solver.Problem, all []spec.Record, c *solver.Conflict) {
	t.Helper()
	core := p
	core.Specs = specs(t, c.Specs...)
	if exists(&core, all) {
		t.Errorf("%v is satisfiable, but reported as the conflict of %v", core.Specs, p.Specs)
	}
}

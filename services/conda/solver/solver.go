// Package solver says which Conda records a request stands for, or why none do.
//
// It is pure: it asks its sources, and does no I/O of its own. The answer is that of
// rattler's order, which users know: requested packages first, each in its newest
// version that can be. Clauses are learnt from conflicts (CDCL), and a package's
// dependencies are looked at when it is first chosen. Truth for what fits what: the
// specifications of internal/conda.
package solver

import (
	"context"
	"errors"
	"time"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Source is one subdirectory of one channel.
type Source interface {
	// Records gives all records of a name, in any order; nil where it has none. They are
	// only read. Safe for concurrent use.
	Records(name string) ([]conda.Record, error)
}

// Channel is one channel, e.g. with its sources linux-64 and noarch.
type Channel struct {
	Name    string
	Sources []Source
}

// Problem is what is asked for, and of what.
type Problem struct {
	// Specs must all hold.
	Specs []conda.MatchSpec
	// Fixed is how many of Specs, the last ones, no suggestion may change.
	Fixed int
	// Channels stand best first.
	Channels []Channel
	// Flexible takes a package from a later channel where those of the first that has its
	// name do not fit. Without it the first channel that has the name is the only one
	// (strict priority), but for a name that is asked for as channel::name.
	Flexible bool
	// Virtual is what is known of the machine. What is not here is not there.
	Virtual []conda.VirtualPackage
	// ExcludeNewer leaves out records that were made later; zero leaves out none. Records
	// that do not say when they were made stay.
	ExcludeNewer time.Time
	// Names helps to explain names that are not there; nil helps nobody.
	Names Names
}

// Names knows what a problem's sources cannot say. Safe for concurrent use.
type Names interface {
	// Nearest gives names of the problem's channels that look like name, best first.
	Nearest(name string) []string
	// Elsewhere gives channels beyond the problem's that have name, best first.
	Elsewhere(name string) []Channel
}

// Solution is one environment.
type Solution struct {
	// Records are in topological order: what a package needs comes before it, where its
	// needs make no circle; names break ties.
	Records []conda.Record
	// Virtual is what the environment was solved for.
	Virtual []conda.VirtualPackage
}

// Solve finds the environment. Errors: *Conflict where there is none, without
// suggestions (see Suggest); fault.Timeout where limits.CondaSolve did not suffice;
// fault.Invalid for a request too large; ctx's error soon after it is cancelled; a
// source's own. Safe for concurrent use.
func Solve(ctx context.Context, p Problem) (*Solution, error) {
	if len(p.Specs) > limits.CondaSpecs {
		return nil, fault.Invalid.Newf("A request may have %d Conda packages, not %d", limits.CondaSpecs, len(p.Specs))
	}
	budget, cancel := context.WithTimeoutCause(ctx, limits.CondaSolve, errTooHard)
	defer cancel()
	s := newSearch(budget, newLibrary(&p), p.Specs)
	err := s.solve()
	switch {
	case err == nil:
		return s.solution(), nil
	case errors.Is(err, errNone):
		return nil, explain(ctx, s)
	}
	return nil, inTime(ctx, err)
}

// SolveAnywhere is Solve, and where the machine's lack of a GPU is what makes the
// request impossible, once more as if it had the newest one: who asks for packages of
// CUDA will run them elsewhere. Solution.Virtual then has __cuda.
func SolveAnywhere(ctx context.Context, p Problem) (*Solution, error) {
	solution, err := Solve(ctx, p)
	var conflict *Conflict
	if !errors.As(err, &conflict) || !conflict.Names("__cuda") {
		return solution, err
	}
	for _, v := range p.Virtual {
		if v.Name == "__cuda" {
			return nil, err
		}
	}
	with := p
	with.Virtual = append(append([]conda.VirtualPackage(nil), p.Virtual...), conda.VirtualPackage{Name: "__cuda", Version: newestCUDA, Build: "0"})
	if again, second := Solve(ctx, with); second == nil || !errors.As(second, new(*Conflict)) {
		return again, second
	}
	return nil, err
}

// newestCUDA is newer than any that packages ask for.
const newestCUDA = "99.0"

var (
	// errNone is said inside: there is no environment.
	errNone = errors.New("unsatisfiable")
	// errTooHard is why the budget's context ended.
	errTooHard = errors.New("the solver's time is up")
)

// inTime tells whose patience ended: the caller's, or ours.
func inTime(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, errTooHard) || errors.Is(err, context.DeadlineExceeded)) {
		return fault.Timeout.New("No answer was found in "+limits.CondaSolve.String()+": ask for exact versions of some packages, or for fewer packages", err)
	}
	return err
}

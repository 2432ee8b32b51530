// Package solver selects the Conda records that satisfy a request, or explains why none do.
//
// It does no I/O of its own: it reads records from its sources. It selects the same records
// as rattler: requested packages first, each in the newest possible version. Clauses are
// learnt from conflicts (CDCL), and the dependencies of a package are encoded when it is
// first chosen. Records are matched by the match specifications of package spec.
package solver

import (
	"context"
	"errors"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Source is one subdirectory of one channel.
type Source interface {
	// Records returns all records of a name in any order, or nil if there are none. The
	// caller must not modify them. It must be safe for concurrent use.
	Records(name string) ([]spec.Record, error)
}

// A Channel is a channel with its sources, e.g. linux-64 and noarch.
type Channel struct {
	Name    string
	Sources []Source
}

// A Problem is a request with the channels to solve it from.
type Problem struct {
	// Specs lists the specifications, all of which must be satisfied.
	Specs []spec.MatchSpec
	// Fixed is the number of specifications at the end of Specs that suggestions must not
	// change.
	Fixed int
	// Channels lists the channels by priority, highest first.
	Channels []Channel
	// Flexible allows a package from a later channel if no record of the first channel that
	// has its name satisfies the request. Otherwise only the first channel that has the
	// name is used (strict priority), except for names requested as channel::name.
	Flexible bool
	// Virtual lists the virtual packages of the machine. Packages that are not listed do
	// not exist.
	Virtual []spec.VirtualPackage
	// ExcludeNewer excludes records with a later timestamp; the zero value excludes none.
	// Records without a timestamp are included.
	ExcludeNewer time.Time
	// ExcludeRecent is like ExcludeNewer, but does not apply to the names in Recent.
	ExcludeRecent time.Time
	Recent        []string
	// Installed lists records that are preferred to all other records of the same name. They
	// may be chosen even if no channel provides them.
	Installed []spec.Record
	// Names provides alternatives for missing names; it may be nil.
	Names Names
	// Memory is called before the solver uses more memory than allowed so far, with the
	// total number of bytes. Its error ends the solve. A nil Memory allows
	// limits.CondaMemory.
	Memory func(bytes int64) error
	// Brief omits suggestions if the problem has no solution, because finding them takes
	// longer than solving.
	Brief bool
}

// Names provides information that the problem's sources do not have. It must be safe for
// concurrent use.
type Names interface {
	// Nearest returns names in the problem's channels that are similar to name, best first.
	Nearest(name string) []string
	// InOtherChannels returns other channels that have name, best first.
	InOtherChannels(name string) []Channel
	// Platforms returns the other platforms for which the problem's channels have name, and
	// its newest version on these platforms, or "" if unknown.
	Platforms(name string) (version string, platforms []string)
}

// A Solution is one environment.
type Solution struct {
	// Records is in topological order, dependencies first, except in dependency cycles.
	// Ties are ordered by name.
	Records []spec.Record
	// Virtual lists the virtual packages that the environment was solved for.
	Virtual []spec.VirtualPackage
}

// Solve returns the environment for a problem. Errors: a *Conflict, without suggestions
// (see Suggest), if there is no solution; fault.Timeout after limits.CondaSolve;
// fault.Invalid if the request is too large; the error of ctx soon after it ends; or the
// error of a source. It is safe for concurrent use.
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

// SolveAnywhere calls Solve. If the request is unsatisfiable only because the machine has
// no GPU, it solves again with the newest CUDA, since images with CUDA packages usually run
// on another machine. Solution.Virtual then contains __cuda.
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
	with.Virtual = append(append([]spec.VirtualPackage(nil), p.Virtual...), spec.VirtualPackage{Name: "__cuda", Version: newestCUDA, Build: "0"})
	if again, second := Solve(ctx, with); second == nil || !errors.As(second, new(*Conflict)) {
		return again, second
	}
	return nil, err
}

// newestCUDA is newer than any version that packages require.
const newestCUDA = "99.0"

var (
	// errNone is returned internally if the problem is unsatisfiable.
	errNone = errors.New("unsatisfiable")
	// errTooHard is the cancellation cause when the solver's time is up.
	errTooHard = errors.New("the solver's time is up")
)

// inTime distinguishes the caller's cancellation from the solver's own time limit.
func inTime(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, errTooHard) || errors.Is(err, context.DeadlineExceeded)) {
		return fault.Timeout.New("No answer was found in "+limits.CondaSolve.String()+": ask for exact versions of some packages, or for fewer packages", err)
	}
	return err
}

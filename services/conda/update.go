package conda

import (
	"context"
	"fmt"
	"slices"
	"strings"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// update solves a request so that packages of the lock in q.from only change if necessary.
// refusal is set if there is no solution.
func (s *Service) update(ctx context.Context, who caller.ID, q *query) (locks []lock, refusal *condav1.LockPackagesResponse, err error) {
	file, err := s.readFrom(ctx, who, q)
	if err != nil {
		return nil, nil, err
	}
	if err := s.adopt(q, file); err != nil {
		return nil, nil, err
	}
	for _, p := range q.platforms {
		of, err := file.For(p.subdir)
		if err == nil {
			err = checkLocked(of)
		}
		if err == nil && !q.hold {
			err = noWheels(of)
		}
		if err != nil {
			return nil, nil, q.from.bad(err)
		}
		l, refusal, err := s.updateFor(ctx, who, q, p, of)
		if err != nil || refusal != nil {
			return nil, refusal, err
		}
		if q.hold {
			if err := s.addWheels(&l, q, of); err != nil {
				return nil, nil, q.from.bad(err)
			}
		}
		locks = append(locks, l)
	}
	return locks, nil, nil
}

// noWheels rejects a lock with wheels, whose requirements the solver does not read.
func noWheels(of lockfile.PlatformLock) error {
	if len(of.PyPI) == 0 {
		return nil
	}
	return fault.Invalid.Newf("the lock has %d wheels of PyPI, such as %s, which the update could break: update it with the tool that wrote it", len(of.PyPI), fault.Quote(of.PyPI[0].Name))
}

// addWheels adds the wheels of an updated lock, unchanged. It returns an error if the update may
// have broken their requirements. These only name Python and Python distributions, so a change of
// packages that do not depend on Python has no effect on them.
func (s *Service) addWheels(l *lock, q *query, of lockfile.PlatformLock) error {
	if len(of.PyPI) == 0 {
		return nil
	}
	now := lockfile.PlatformLock{Packages: l.solution.Records}
	for _, c := range (lockfile.Lock{Platforms: []lockfile.PlatformLock{{Packages: of.Packages}}}).Diff(lockfile.Lock{Platforms: []lockfile.PlatformLock{now}}) {
		for _, r := range []*spec.Record{c.Old, c.New} {
			if r != nil && (r.Name == "python" || slices.Contains(r.Needs(), "python")) {
				return noWheels(of)
			}
		}
	}
	wheels, err := s.wheels(of, glibc(q.machine(l.platform)))
	l.solution.Records = append(l.solution.Records, wheels...)
	return err
}

// readFrom reads the lock that a request updates.
func (s *Service) readFrom(ctx context.Context, who caller.ID, q *query) (lockfile.Lock, error) {
	within, place, err := s.reserveSolve(ctx, who, nil)
	if err != nil {
		return lockfile.Lock{}, err
	}
	defer place.release()
	if err := s.fetchLock(within, q.from); err != nil {
		return lockfile.Lock{}, err
	}
	if err := place.memoryFunc(within)(int64(limits.CondaFileMemory * len(q.from.text))); err != nil {
		return lockfile.Lock{}, err
	}
	var file lockfile.Lock
	err = s.deps.Turns.Do(within, who.Client(ctx), len(q.from.text), func() (err error) {
		if file, err = lockfile.Read(q.from.text, q.from.environment); err != nil {
			return q.from.bad(err)
		}
		return nil
	})
	return file, errContended(within, err)
}

// adopt sets the platforms and channels of a request that has none to those of the lock.
func (s *Service) adopt(q *query, file lockfile.Lock) error {
	if isAnywhere := len(file.Platforms) == 1 && file.Platforms[0].Platform == ""; q.fromPlatforms && !isAnywhere {
		q.platforms = nil
		for _, of := range file.Platforms {
			i := slices.IndexFunc(platforms(), func(p platform) bool { return p.subdir == of.Platform })
			if i < 0 {
				return fault.Invalid.Newf("from: the lock has the platform %s, which cannot be solved for: set platforms", fault.Quote(of.Platform))
			}
			q.platforms = append(q.platforms, platforms()[i])
		}
		if q.format.ForOnePlatform() && len(q.platforms) > 1 {
			return fault.Invalid.Newf("An explicit lock is for one platform: set platforms to one platform, or format to conda-lock or pixi")
		}
	}
	if !q.fromChannels {
		return nil
	}
	names := lockChannels(file)
	for _, name := range q.more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	channels, notes, err := s.resolve(names)
	q.channels, q.notes = channels, append(q.notes, notes...)
	return fault.In("from", err)
}

// lockChannels returns the channels of a lock, highest priority first. An explicit lock has no
// priorities, so the default channels come first, in their order.
func lockChannels(file lockfile.Lock) []string {
	if len(file.ChannelURLs) > 0 {
		return file.ChannelURLs
	}
	if len(file.Channels) > 0 {
		return file.Channels
	}
	var all, out []string
	for _, p := range file.Platforms {
		for _, r := range p.Packages {
			if c := r.ChannelURL(); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	for _, name := range defaultChannels() {
		for _, c := range all {
			if strings.HasSuffix(c, "/"+name) {
				out = append(out, c)
			}
		}
	}
	for _, c := range all {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// updateFor solves the update for one platform.
func (s *Service) updateFor(ctx context.Context, who caller.ID, q *query, p platform, of lockfile.PlatformLock) (lock, *condav1.LockPackagesResponse, error) {
	lists, err := s.listsOf(ctx, who, q, p.subdir)
	if err != nil {
		return lock{}, nil, err
	}
	installed, lost, err := s.complete(ctx, who, q, lists, of)
	if err != nil {
		return lock{}, nil, err
	}
	if len(lost) > 0 {
		q.notes = append(q.notes, fmt.Sprintf("%s could not be kept for %s, since the channels no longer have it and the lock does not list its dependencies", strings.Join(lost, ", "), p.name))
	}
	problem := s.problem(q, p, lists)
	if q.named != nil {
		problem.Specs, problem.Fixed = withRoots(q, installed, lost)
	}
	problem.Installed = slices.DeleteFunc(installed, func(r spec.Record) bool { return slices.Contains(q.named, r.Name) })
	isMinimal := true
	solution, refusal, err := s.solveProblem(ctx, who, q.channels, problem, func(ctx context.Context, p solver.Problem) (out *solver.Solution, err error) {
		if q.hold {
			if out, err = holdOthers(ctx, p, q); err != nil || out != nil {
				return out, err
			}
		}
		out, isMinimal, err = solver.Update(ctx, p, q.named)
		return out, err
	})
	if err != nil || refusal != nil {
		return lock{}, refusal, err
	}
	if !isMinimal {
		q.notes = append(q.notes, "More packages may have changed for "+p.name+" than necessary: the search for alternatives stopped after "+limits.CondaUpdate.String())
	}
	q.noteUndated(solution.Records, lists)
	return lock{platform: p, solution: solution, lists: lists, from: &of, asOf: q.asOf, newest: q.oldest(lists)}, nil, nil
}

// holdOthers solves an update without a change of other packages or, if that is impossible, with
// changes only of those that may change. It returns nil if that is impossible, too.
func holdOthers(ctx context.Context, p solver.Problem, q *query) (*solver.Solution, error) {
	for _, free := range [][]string{q.named, slices.Concat(q.named, q.mayChange)} {
		held := p
		held.Specs = slices.Clone(p.Specs)
		for i := range p.Installed { // none of them may be removed, either
			if name := p.Installed[i].Name; !slices.Contains(free, name) {
				held.Specs = append(held.Specs, spec.MatchSpec{Name: name})
			}
		}
		out, err := solver.Hold(ctx, held, free)
		if err != nil || out != nil || len(q.mayChange) == 0 {
			return out, err
		}
	}
	return nil, nil //nolint:nilnil // there is no solution
}

// withRoots returns specifications for the packages to update and for the other roots of the
// lock, and the number of specifications that suggestions must not change.
func withRoots(q *query, installed []spec.Record, lost []string) (specs []spec.MatchSpec, fixed int) {
	asked := len(q.specs) - q.base
	specs = slices.Clone(q.specs[:asked])
	for _, name := range slices.Concat(roots(installed), lost) {
		if !slices.Contains(q.named, name) {
			specs = append(specs, spec.MatchSpec{Name: name})
		}
	}
	specs = append(specs, q.specs[asked:]...)
	return specs, len(specs) - asked
}

// roots returns the roots of the dependency graph: the packages that no other package
// requires, and one package of each cycle that no other package requires.
func roots(records []spec.Record) (out []string) {
	needs, required := map[string][]string{}, map[string]bool{}
	for i := range records {
		needs[records[i].Name] = records[i].Needs()
		for _, name := range records[i].Needs() {
			required[name] = required[name] || name != records[i].Name
		}
	}
	reached := map[string]bool{}
	var reach func(name string)
	reach = func(name string) {
		if reached[name] {
			return
		}
		reached[name] = true
		for _, n := range needs[name] {
			reach(n)
		}
	}
	for _, isRequired := range []bool{false, true} {
		for i := range records {
			if name := records[i].Name; required[name] == isRequired && !reached[name] {
				out = append(out, name)
				reach(name)
			}
		}
	}
	return out
}

// complete returns the records of a lock as the channels list them, because some lock formats
// omit dependencies and licences. Records that the channels no longer have are returned as in the
// lock or, if the lock omits dependencies, left out; lost lists the names of the latter.
func (s *Service) complete(ctx context.Context, who caller.ID, q *query, lists []list, of lockfile.PlatformLock) (out []spec.Record, lost []string, err error) {
	memory, err := s.reserve(ctx, who, q.channels)
	if err != nil {
		return nil, nil, err
	}
	defer memory.Release()
	isComplete := slices.ContainsFunc(of.Packages, func(r spec.Record) bool { return len(r.Depends) > 0 })
	for _, r := range of.Sorted() {
		if err := memory.reserve(ctx, r.Name, lists); err != nil {
			return nil, nil, err
		}
		listed, err := findRecord(lists, r)
		switch {
		case err != nil:
			return nil, nil, err
		case listed != nil:
			out = append(out, *listed)
		case isComplete:
			out = append(out, r)
		default:
			lost = append(lost, r.Name)
		}
	}
	return out, lost, nil
}

// findRecord returns the record in the package lists that describes the same artifact as r, or
// nil if they do not have it.
func findRecord(lists []list, r spec.Record) (*spec.Record, error) {
	for _, l := range lists {
		if l.Index == nil || r.Subdir != "" && l.subdir != r.Subdir {
			continue
		}
		all, err := l.Index.Records(r.Name)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if all[i].SameArtifact(r) {
				return &all[i], nil
			}
		}
	}
	return nil, nil //nolint:nilnil // the record is not listed
}

package conda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// LockPackages returns the packages that satisfy a request, or explains why no environment
// exists.
func (s *Service) LockPackages(ctx context.Context, req *condav1.LockPackagesRequest) (*condav1.LockPackagesResponse, error) {
	q, err := s.read(ctx, caller.ID{}, req.GetLock())
	if err != nil {
		return nil, err
	}
	claim, err := caller.ReadClaim(req.GetLock())
	if err != nil {
		return nil, err
	}
	who, err := s.identify(ctx, claim)
	if err != nil {
		return nil, err
	}
	locks, refusal, err := s.solve(ctx, who, &q)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return refusal, nil
	}
	var out *condav1.LockPackagesResponse
	err = s.deps.Turns.Do(ctx, who.Client(ctx), q.lock.size(), func() (err error) {
		out, err = q.response(locks)
		return err
	})
	if err == nil && q.format == "" {
		s.addLayerStates(ctx, locks, out.GetLocks())
	}
	return out, err
}

// SolvePackages is LockPackages for other services, and returns the packages' complete
// records.
func (s *Service) SolvePackages(ctx context.Context, req *condav1.SolvePackagesRequest) (*condav1.SolvePackagesResponse, error) {
	who := caller.Of(req.GetIdentity())
	q, err := s.read(ctx, who, req.GetLock())
	if err != nil {
		return nil, err
	}
	if req.GetListsAfter() != nil {
		q.after = req.GetListsAfter().AsTime()
	}
	q.brief = req.GetBrief()
	q.hold, q.mayChange = req.GetHold(), req.GetMayChange()
	locks, refusal, err := s.solve(ctx, who, &q)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return &condav1.SolvePackagesResponse{Answer: refusal}, nil
	}
	out := &condav1.SolvePackagesResponse{Channels: q.channelNames(), ChannelUrls: q.channelURLs()}
	err = s.deps.Turns.Do(ctx, who.Client(ctx), q.lock.size(), func() error { return s.write(out, &q, locks) })
	return out, err
}

// write adds the packages of locks to a response.
func (s *Service) write(out *condav1.SolvePackagesResponse, q *query, locks []lock) (err error) {
	if out.Answer, err = q.response(locks); err != nil {
		return err
	}
	for _, l := range locks {
		raw, err := json.Marshal(l.solution.Records)
		if err != nil {
			return fmt.Errorf("writing records: %w", err)
		}
		out.Records, out.Subdirs = append(out.Records, string(raw)), append(out.Subdirs, l.platform.subdir)
		for _, from := range l.lists {
			if from.private && !slices.Contains(out.GetPrivateChannels(), from.channel.URL) {
				out.Private, out.PrivateChannels = true, append(out.GetPrivateChannels(), from.channel.URL)
			}
			if !from.private && s.isIndexed(from.channel) && !slices.Contains(out.GetIndexedChannels(), from.channel.URL) {
				out.IndexedChannels = append(out.GetIndexedChannels(), from.channel.URL)
			}
		}
	}
	return nil
}

// A lock is a solved environment with its request.
type lock struct {
	platform platform
	solution *solver.Solution
	lists    []list
	// from is the lock that was updated, or nil.
	from *lockfile.PlatformLock
	// asOf is the time of the lists, and newest the time after which packages were excluded;
	// zero for none.
	asOf, newest time.Time
}

// solve solves the environment for each platform. refusal is set if there is no solution.
func (s *Service) solve(ctx context.Context, who caller.ID, q *query) (locks []lock, refusal *condav1.LockPackagesResponse, err error) {
	if q.lock != nil {
		locks, err = s.useLock(ctx, who, q)
		return locks, nil, err
	}
	if q.from != nil {
		return s.update(ctx, who, q)
	}
	for _, p := range q.platforms {
		lists, err := s.listsOf(ctx, who, q, p.subdir)
		if err != nil {
			return nil, nil, err
		}
		solution, refusal, err := s.solveProblem(ctx, who, q.channels, s.problem(q, p, lists), solver.SolveAnywhere)
		if err != nil || refusal != nil {
			q.explainAge(refusal)
			return nil, refusal, err
		}
		q.noteUndated(solution.Records, lists)
		locks = append(locks, lock{platform: p, solution: solution, lists: lists, asOf: q.asOf, newest: q.oldest(lists)})
	}
	return locks, nil, nil
}

// problem returns the solver problem of a request for one platform.
func (s *Service) problem(q *query, p platform, lists []list) solver.Problem {
	return solver.Problem{
		Specs: q.specs, Fixed: q.base, Channels: s.sources(lists), Flexible: q.flexible, Virtual: q.machine(p), ExcludeNewer: q.newestFor(lists), ExcludeRecent: q.recent, Recent: q.recentNames,
		Names: &names{service: s, lists: lists, subdirs: []string{p.subdir, "noarch"}}, Brief: q.brief,
	}
}

// A solveFunc is solver.SolveAnywhere or a variant of it.
type solveFunc func(context.Context, solver.Problem) (*solver.Solution, error)

// solveProblem solves one problem, or explains why it has no solution.
func (s *Service) solveProblem(ctx context.Context, who caller.ID, channels []channel.Channel, p solver.Problem, solve solveFunc) (*solver.Solution, *condav1.LockPackagesResponse, error) {
	within, place, err := s.reserveSolve(ctx, who, channels)
	if err != nil {
		return nil, nil, err
	}
	defer place.release()
	p.Memory = place.memoryFunc(within)
	start := s.deps.Now()
	solution, err := solve(within, p)
	s.measure(err, s.deps.Now().Sub(start))
	var conflict *solver.Conflict
	switch {
	case errors.As(err, &conflict):
		refusal, err := refuse(within, p, conflict)
		return nil, refusal, errContended(within, err)
	case err != nil:
		return nil, nil, unsolved(ctx, errContended(within, err))
	}
	return solution, nil, nil
}

// unsolved returns the fault for an error of the solver.
func unsolved(ctx context.Context, err error) error {
	if errors.As(err, new(*fault.Error)) || ctx.Err() != nil {
		return err
	}
	return fault.Unavailable.New("A list of packages could not be read; try again in a moment", err).After(5 * time.Second)
}

func (s *Service) measure(err error, took time.Duration) {
	outcome := "solved"
	switch {
	case errors.As(err, new(*solver.Conflict)):
		outcome = "unsatisfiable"
	case err != nil:
		outcome = "failed"
	}
	s.solved.WithLabelValues(outcome).Observe(took.Seconds())
}

// refuse returns a response that explains why no environment exists and suggests
// alternatives.
func refuse(ctx context.Context, p solver.Problem, c *solver.Conflict) (*condav1.LockPackagesResponse, error) {
	if p.Brief {
		return refusalOf(c, nil), nil
	}
	suggestions, err := solver.Suggest(ctx, p, c)
	if err != nil {
		return nil, err
	}
	return refusalOf(c, suggestions), nil
}

func (q *query) channelNames() []string {
	var out []string
	for _, c := range q.channels {
		out = append(out, c.Name)
	}
	return out
}

func (q *query) channelURLs() []string {
	var out []string
	for _, c := range q.channels {
		out = append(out, c.URL)
	}
	return out
}

// response returns locks in the format that the request selects.
func (q *query) response(locks []lock) (*condav1.LockPackagesResponse, error) {
	if q.format == "" {
		out := &condav1.LockPackagesResponse{Notes: q.notes}
		for _, l := range locks {
			out.Locks = append(out.Locks, l.toProto())
		}
		return out, nil
	}
	file := lockfile.Lock{Channels: q.channelNames(), ChannelURLs: q.channelURLs()}
	for _, l := range locks {
		of := l.toProto()
		file.Comments = append(file.Comments, lockfile.Provenance(of.GetAsOf(), of.GetExcludeNewer(), of.GetSnapshots())...)
		packages, wheels := spec.Split(l.solution.Records)
		file.Platforms = append(file.Platforms, lockfile.PlatformLock{Platform: l.platform.subdir, Packages: packages, PyPI: wheels})
	}
	text, err := file.Text(q.format)
	if err != nil {
		return nil, fmt.Errorf("writing a lock: %w", err)
	}
	return &condav1.LockPackagesResponse{Text: &text}, nil
}

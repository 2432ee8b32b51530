package conda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

// LockPackages answers what a request stands for, or why there is no such environment.
func (s *Service) LockPackages(ctx context.Context, req *condav1.LockPackagesRequest) (*condav1.LockPackagesResponse, error) {
	q, err := s.read(req.GetLock())
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
	locks, refusal, err := s.solve(ctx, who, q)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return refusal, nil
	}
	out, err := q.answer(locks)
	if err == nil && q.format == "" {
		s.foresee(ctx, locks, out.GetLocks())
	}
	return out, err
}

// SolvePackages answers the same to a room, with the packages' whole records.
func (s *Service) SolvePackages(ctx context.Context, req *condav1.SolvePackagesRequest) (*condav1.SolvePackagesResponse, error) {
	q, err := s.read(req.GetLock())
	if err != nil {
		return nil, err
	}
	locks, refusal, err := s.solve(ctx, caller.Of(req.GetIdentity()), q)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return &condav1.SolvePackagesResponse{Answer: refusal}, nil
	}
	out := &condav1.SolvePackagesResponse{Channels: q.channelNames()}
	if out.Answer, err = q.answer(locks); err != nil {
		return nil, err
	}
	for _, l := range locks {
		raw, err := json.Marshal(l.solution.Records)
		if err != nil {
			return nil, fmt.Errorf("writing records: %w", err)
		}
		out.Records, out.Subdirs = append(out.Records, string(raw)), append(out.Subdirs, l.platform.subdir)
		for _, from := range l.lists {
			if from.private && !slices.Contains(out.GetPrivateChannels(), from.channel.URL) {
				out.Private, out.PrivateChannels = true, append(out.GetPrivateChannels(), from.channel.URL)
			}
		}
	}
	return out, nil
}

// lock is a solved environment, and what it was made from.
type lock struct {
	platform platform
	solution *solver.Solution
	lists    []list
}

// solve makes the environment for each platform. refusal says why there is none.
func (s *Service) solve(ctx context.Context, who caller.ID, q query) (locks []lock, refusal *condav1.LockPackagesResponse, err error) {
	for _, p := range q.platforms {
		lists, err := s.lists(ctx, who, q.channels, p.subdir, "noarch")
		if err != nil {
			return nil, nil, err
		}
		problem := solver.Problem{
			Specs: q.specs, Fixed: q.base, Channels: sources(lists), Flexible: q.flexible, Virtual: q.machine(p), ExcludeNewer: q.newest,
			Names: &names{service: s, lists: lists, subdirs: []string{p.subdir, "noarch"}},
		}
		solution, refusal, err := s.answer(ctx, who, problem)
		if err != nil || refusal != nil {
			return nil, refusal, err
		}
		locks = append(locks, lock{p, solution, lists})
	}
	return locks, nil, nil
}

// answer solves one problem, or says why it has no solution.
func (s *Service) answer(ctx context.Context, who caller.ID, p solver.Problem) (*solver.Solution, *condav1.LockPackagesResponse, error) {
	leave, err := s.atOnce.Enter(client(ctx, who))
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	start := s.deps.Now()
	solution, err := solver.SolveAnywhere(ctx, p)
	s.measure(err, s.deps.Now().Sub(start))
	var conflict *solver.Conflict
	switch {
	case errors.As(err, &conflict):
		refusal, err := refuse(ctx, p, conflict)
		return nil, refusal, err
	case err != nil:
		return nil, nil, unsolved(ctx, err)
	}
	return solution, nil, nil
}

// unsolved says what it means that there was no answer.
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

// refuse says why there is no environment, and what there would be.
func refuse(ctx context.Context, p solver.Problem, c *solver.Conflict) (*condav1.LockPackagesResponse, error) {
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

// answer writes locks as the request wants them.
func (q *query) answer(locks []lock) (*condav1.LockPackagesResponse, error) {
	if q.format == "" {
		out := &condav1.LockPackagesResponse{}
		for _, l := range locks {
			out.Locks = append(out.Locks, l.shown())
		}
		return out, nil
	}
	file := conda.Lock{Channels: q.channelNames()}
	for _, l := range locks {
		file.Platforms = append(file.Platforms, conda.PlatformLock{Platform: l.platform.subdir, Packages: l.solution.Records})
	}
	text, err := file.Text(q.format)
	if err != nil {
		return nil, fmt.Errorf("writing a lock: %w", err)
	}
	return &condav1.LockPackagesResponse{Text: &text}, nil
}

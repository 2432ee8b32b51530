package conda

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// shares divides the resources of calls among clients. Searches and descriptions have a
// pool of their own, so that they never wait behind solves.
type shares struct {
	// solves limits concurrent solves, memory the bytes that they use, and reads concurrent
	// searches and descriptions.
	solves, memory, reads *fairshare.Pool
}

func newShares() shares {
	places := int64(min(max(2*runtime.GOMAXPROCS(0), limits.CondaSolvesFewest), limits.CondaSolvesMost))
	return shares{
		solves: fairshare.New(fairshare.Config{
			Name: "solves of Conda packages", Capacity: places, PerClient: places / 2, Reserved: 1, MaxWaiting: limits.CondaSolvesWaiting,
		}),
		memory: fairshare.New(fairshare.Config{
			Name: "large solves of Conda packages", Capacity: limits.CondaSolvesMemory, Reserved: limits.CondaSolvesMemory / 8,
			MaxWaiting: limits.CondaSolvesMost, MaxWait: limits.CondaMemoryWait,
		}),
		reads: fairshare.New(fairshare.Config{
			Name: "searches for Conda packages", Capacity: limits.CondaReads, Reserved: limits.CondaReads / 8,
			MaxWaiting: limits.CondaReadsWaiting, MaxWaitingPerClient: limits.CondaReadsWaitingClient, MaxWait: limits.CondaReadsWait,
		}),
	}
}

// isUntrusted reports whether a channel is neither configured by the operator nor well
// known.
func (s *Service) isUntrusted(channels []channel.Channel) bool {
	return slices.ContainsFunc(channels, func(c channel.Channel) bool { return !s.deps.Channels.IsKnown(c.Name) })
}

// A recordMemory is the memory for records that a call has reserved.
type recordMemory struct {
	*fairshare.Lease
	held int64
}

// reserve waits until a call may read lists.
func (s *Service) reserve(ctx context.Context, who caller.ID, channels []channel.Channel) (*recordMemory, error) {
	lease, err := s.shares.reads.Acquire(ctx, fairshare.Request{Client: who.Client(ctx), Amount: limits.CondaRead, Untrusted: s.isUntrusted(channels)})
	if err != nil {
		return nil, err
	}
	return &recordMemory{Lease: lease}, nil
}

// reserve waits until the records of a name, in all lists together, fit into the reserved
// memory. Names are read one after the other, so only the largest counts.
func (m *recordMemory) reserve(ctx context.Context, name string, lists []list) error {
	var stored int64
	for _, l := range lists {
		if l.Index == nil {
			continue
		}
		n, err := l.Index.Bytes(name)
		if err != nil {
			return err
		}
		stored += n
	}
	more := min(limits.CondaRecordSize*stored, limits.CondaReadMost) - m.held
	if more <= 0 {
		return nil
	}
	m.held += more
	return m.Grow(ctx, more)
}

// A reservation holds the resources that a call has reserved for a solve.
type reservation struct {
	shares  shares
	request fairshare.Request
	lease   *fairshare.Lease
	// memory is nil while the solve uses at most limits.CondaMemoryStep, which the reservation
	// includes.
	memory *fairshare.Lease
	held   int64
	cancel context.CancelFunc
}

// reserveSolve waits until a call may solve. It returns a context for the solve, which is
// cancelled early for untrusted channels while other clients wait.
func (s *Service) reserveSolve(ctx context.Context, who caller.ID, channels []channel.Channel) (context.Context, *reservation, error) {
	p := &reservation{shares: s.shares, request: fairshare.Request{Client: who.Client(ctx), Class: fairshare.Long, Untrusted: s.isUntrusted(channels)}}
	if rpc.CallFrom(ctx).Background {
		p.request.Class = fairshare.Background
	}
	var err error
	if p.lease, err = s.shares.solves.Acquire(ctx, p.request); err != nil {
		return nil, nil, err
	}
	budget := limits.CondaSolve
	if who.IsAnonymous() {
		budget = limits.CondaSolveContended
	}
	ctx, p.cancel = p.lease.Context(ctx, budget)
	return ctx, p, nil
}

func (p *reservation) release() {
	p.cancel()
	p.lease.Release()
	if p.memory != nil {
		p.memory.Release()
	}
}

// memoryFunc returns the Memory function of a solver.Problem, which waits until the solve may use
// that much memory.
func (p *reservation) memoryFunc(ctx context.Context) func(bytes int64) error {
	return func(bytes int64) (err error) {
		more := bytes - limits.CondaMemoryStep - p.held
		if more <= 0 {
			return nil
		}
		if p.memory == nil {
			r := p.request
			r.Amount = more
			p.memory, err = p.shares.memory.Acquire(ctx, r)
		} else {
			err = p.memory.Grow(ctx, more)
		}
		if err == nil {
			p.held += more
		}
		return err
	}
}

// errContended replaces the error of a solve that was cancelled because other clients wait. It
// returns other errors unchanged.
func errContended(within context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(within), fairshare.ErrContended) {
		return err
	}
	return fault.Unavailable.New("The request takes long, and other clients are waiting; ask for exact versions of some packages, or try again later", err).After(30 * time.Second)
}

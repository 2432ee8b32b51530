package channel

import (
	"context"
	"errors"
	"slices"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// pools limit the concurrent fetches. The operator's channels, which all clients use, have
// a pool of their own.
type pools struct {
	shared, others *fairshare.Pool
	// pasts limits the memory for reconstructing earlier lists, in bytes.
	pasts *fairshare.Pool
}

func newPools() pools {
	return pools{
		shared: fairshare.New(fairshare.Config{
			Name: "lists of the operator's Conda channels", Capacity: limits.ChannelsAtOnce, MaxWaiting: limits.ChannelsKnown,
		}),
		others: fairshare.New(fairshare.Config{
			Name: "lists of Conda channels", Capacity: limits.ChannelsAtOnce, PerClient: limits.ChannelsOfClient,
			MaxWaiting: limits.ChannelsKnown, MaxWaitingPerClient: limits.ChannelsWaiting,
		}),
		pasts: fairshare.New(fairshare.Config{
			Name: "earlier lists of Conda channels", Capacity: limits.ChannelPastMemory, Reserved: limits.ChannelPastMemory / 8,
			MaxWaiting: limits.ChannelPastsWaiting, MaxWait: limits.CondaMemoryWait,
		}),
	}
}

// isShared reports whether an entry belongs to no client: its channel is configured by the
// operator, or well known.
func (s *Store) isShared(e *entry) bool { return e.key.scope == "" && s.IsKnown(e.channel.Name) }

// enqueue returns a ticket for an entry in a client's share.
func (s *Store) enqueue(e *entry, client fairshare.Client) (*fairshare.Ticket, error) {
	if s.isShared(e) {
		return s.pools.shared.Enqueue(fairshare.Request{Client: fairshare.Service(), Class: fairshare.Long})
	}
	return s.pools.others.Enqueue(fairshare.Request{Client: client, Class: fairshare.Long})
}

// begin enqueues the fetch of an entry in the client's share. The caller holds mu.
func (s *Store) begin(e *entry, client fairshare.Client) error {
	if s.running.Err() != nil {
		return fault.Unavailable.Newf("The server is shutting down; try again in a moment").After(limits.ChannelRetry)
	}
	ticket, err := s.enqueue(e, client)
	if err != nil {
		return err
	}
	var wanted context.Context
	wanted, e.begun = context.WithCancel(s.running)
	e.fetching, e.clients, e.wanted = make(chan struct{}), nil, wanted
	s.bid(e, client, ticket)
	return nil
}

// join adds another client's ticket to a queued entry. The ticket that comes up first starts
// the fetch. The caller holds mu.
func (s *Store) join(e *entry, client fairshare.Client) {
	if e.wanted.Err() != nil || s.isShared(e) || len(e.clients) >= limits.ChannelsWaiting || slices.Contains(e.clients, client) {
		return
	}
	// A client whose queue is full is not rejected: it waits for the other clients'
	// tickets.
	if ticket, err := s.enqueue(e, client); err == nil {
		s.bid(e, client, ticket)
	}
}

// bid fetches an entry when the client's ticket comes up, unless another ticket came first.
// The caller holds mu.
func (s *Store) bid(e *entry, client fairshare.Client, ticket *fairshare.Ticket) {
	e.clients = append(e.clients, client)
	wanted := e.wanted
	s.fetches.Go(func() {
		lease, err := ticket.Wait(wanted)
		if err != nil {
			return
		}
		defer lease.Release()
		if s.take(e, wanted) {
			within, cancel := lease.Context(s.running, limits.ChannelContended)
			defer cancel()
			s.update(within, e)
		}
	})
}

// take reports whether a ticket is the first one of a queued entry.
func (s *Store) take(e *entry, wanted context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wanted.Err() != nil {
		return false
	}
	e.begun()
	return true
}

// contended replaces the error of a fetch that was cancelled because other clients wait. It
// returns other errors unchanged.
func contended(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), fairshare.ErrContended) {
		return err
	}
	return fault.Unavailable.New("The channel is slow, and other clients are waiting; try again later", err).After(limits.ChannelRetry)
}

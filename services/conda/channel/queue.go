package channel

import (
	"context"
	"slices"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// queue is what is to be fetched, in the order in which it was asked for. The store's
// mu guards it.
type queue struct {
	waiting []*entry
	// running counts what is being fetched, by client.
	running map[string]int
	// ready has a token for each entry that may be taken, at most one for each worker.
	ready chan struct{}
}

func newQueue() *queue {
	return &queue{running: map[string]int{}, ready: make(chan struct{}, limits.ChannelsAtOnce)}
}

// queue is the one of an entry: those that everybody uses wait for no others.
func (s *Store) queue(e *entry) *queue {
	if s.isShared(e) {
		return s.shared
	}
	return s.others
}

// isShared says whether an entry is everybody's: of a channel that the operator named,
// or everybody knows.
func (s *Store) isShared(e *entry) bool { return e.key.scope == "" && s.IsKnown(e.channel.Name) }

// begin puts an entry into its queue, for a client. The caller holds mu.
func (s *Store) begin(e *entry, client string) error {
	q := s.queue(e)
	if q == s.others && q.of(client) >= limits.ChannelsWaiting {
		return fault.Exhausted.Newf("Too many Conda channels are being fetched for one client: at most %d lists at a time; try again later", limits.ChannelsWaiting).After(5 * time.Second)
	}
	e.fetching, e.clients, e.waits = make(chan struct{}), []string{client}, true
	q.waiting = append(q.waiting, e)
	q.wake()
	return nil
}

// wake has a worker look.
func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default: // every worker will
	}
}

// of is how much waits for a client.
func (q *queue) of(client string) (n int) {
	for _, e := range q.waiting {
		if e.clients[0] == client {
			n++
		}
	}
	return n
}

// join has another client wait for an entry, too. The caller holds mu.
func (s *Store) join(e *entry, client string) {
	if e.waits && len(e.clients) < limits.ChannelsWaiting && !slices.Contains(e.clients, client) {
		e.clients = append(e.clients, client)
		s.queue(e).wake()
	}
}

// take is the next entry that may be fetched, and in whose name; nil for none.
func (s *Store) take(q *queue) (*entry, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range q.waiting {
		for _, client := range e.clients {
			if q == s.shared || q.running[client] < limits.ChannelsOfClient {
				q.waiting = slices.Delete(q.waiting, i, i+1)
				q.running[client]++
				e.waits = false
				return e, client
			}
		}
	}
	return nil, ""
}

// leave says that an entry was fetched in a client's name.
func (s *Store) leave(q *queue, client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.running[client]--; q.running[client] == 0 {
		delete(q.running, client)
	}
}

// work fetches what is in a queue, one at a time. Several do.
func (s *Store) work(ctx context.Context, q *queue) {
	for {
		if e, client := s.take(q); e != nil && ctx.Err() == nil {
			s.update(ctx, e)
			s.leave(q, client)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-q.ready:
		}
	}
}

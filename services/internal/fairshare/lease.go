package fairshare

import (
	"context"
	"errors"
	"time"
)

// Lease is a part of a pool that a client holds. Safe for concurrent use.
type Lease struct {
	pool     *Pool
	path     []*record
	rank     int
	stranger bool
	// amount is 0 once the lease was released. The pool's lock guards it.
	amount int64
}

// Release returns the lease to the pool. Further calls have no effect.
func (l *Lease) Release() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.amount > 0 {
		l.pool.hold(l.path, l.stranger, -l.amount)
		l.amount = 0
		l.pool.dispatch()
	}
}

// Grow waits until the lease holds n more. It is served before other requests of its client. It
// returns the errors of Acquire, and then leaves the lease unchanged.
func (l *Lease) Grow(ctx context.Context, n int64) error {
	if n <= 0 {
		return nil
	}
	w, err := l.enqueue(n)
	if err == nil {
		err = l.pool.await(ctx, w)
	}
	if err != nil {
		return err
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.amount == 0 {
		l.pool.hold(l.path, l.stranger, -n)
		l.pool.dispatch()
		return errReleased
	}
	l.amount += n
	return nil
}

// enqueue adds a request for n more, unless it cannot be served.
func (l *Lease) enqueue(n int64) (*waiter, error) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.amount == 0 {
		return nil, errReleased
	}
	p.sequence++
	w := &waiter{path: l.path, stranger: l.stranger, rank: l.rank, amount: n, sequence: p.sequence, grows: true, granted: make(chan struct{})}
	if whole := (&waiter{path: l.path, stranger: l.stranger, amount: l.amount + n}); !p.fitsCapacity(whole) {
		return nil, p.rejection(whole)
	}
	p.add(w)
	if p.dispatch(); !w.served && p.config.MaxWaiting == 0 {
		p.remove(w)
		return nil, p.rejection(w)
	}
	return w, nil
}

var errReleased = errors.New("the lease was released")

// ErrContended is the cause of a context that ended early in favour of other clients.
var ErrContended = errors.New("other clients are waiting")

// Context returns a context for the work that the lease is held for. After the given time, it
// ends with the cause ErrContended if a request of another client waits that has precedence:
// one of a smaller rank, or one of the same rank and a smaller share.
func (l *Lease) Context(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		t := time.NewTimer(after)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if l.contended() {
				cancel(ErrContended)
				return
			}
			t.Reset(contentionCheck)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// contentionCheck is the interval at which a lease checks for requests of other clients.
const contentionCheck = 250 * time.Millisecond

// contended reports whether a request of another client waits that has precedence over this
// lease's client. It ignores clients that have reached their own limit, so that a client cannot
// end the work of others by queueing requests.
func (l *Lease) contended() bool {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	own, now := &waiter{path: l.path}, time.Now()
	for _, w := range p.waiting {
		if w.client() != own.client() && p.withinClient(w) && (w.rank < l.rank || w.rank == l.rank && w.before(own, now)) {
			return true
		}
	}
	return false
}

// Package fairshare divides a limited resource (places, or bytes of memory) among clients that
// do not trust each other. It is the only scheduler for resources that strangers share: every
// resource that one client could withhold from others is acquired from a Pool.
//
// A Pool hands out leases. Requests that do not fit wait, and the next lease goes to:
//
//  1. users before strangers (clients without a user), requests for trusted content before
//     others, and lower classes before higher ones. Of eight leases for which both sides
//     wait, the last goes to the other side, so that neither starves;
//  2. the client with the smallest share: what it holds now, plus the average of what it
//     held lately (exponentially decayed, with a half-life of a minute). Shares are
//     compared network by network: first the IPv6 /48 or IPv4 /24, then the /56, then the
//     client. A thousand addresses of one network have the share of one;
//  3. the request that has waited longest.
//
// No client holds more than Config.PerClient, and no network of strangers holds more than twice
// what is left: a part of the pool always remains for other networks, even if leases are held
// for hours. Waiting requests are bounded by the same rules. Usage is counted in this process
// only; package ratelimit limits rates across processes.
package fairshare

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"slipway.dev/services/internal/fault"
)

// retryAfter is the Retry-After of refused requests.
const retryAfter = 5 * time.Second

// Pool divides a resource. Make it with New; safe for concurrent use. Register it as a
// Prometheus collector.
type Pool struct {
	config  Config
	metrics *metrics

	mu      sync.Mutex
	usage   *usage
	waiting []*waiter
	// passed counts leases by decision of the order; see pick.
	passed [ranks]uint8
	// held and heldByStrangers are the sums of all leases; sequence numbers requests and
	// leases.
	held, heldByStrangers int64
	sequence              uint64
}

// waiter is a request that is not served yet.
type waiter struct {
	path     []*record
	stranger bool
	rank     int
	amount   int64
	sequence uint64
	grows    bool
	// granted is closed under the pool's lock when the request is served.
	granted chan struct{}
	served  bool
}

// client returns the record of the client itself.
func (w *waiter) client() *record { return w.path[len(w.path)-1] }

// New returns a pool without leases.
func New(c Config) *Pool {
	if c.Capacity == 0 {
		c.Capacity = math.MaxInt64
	}
	if c.MaxWaitingPerClient == 0 {
		c.MaxWaitingPerClient = c.MaxWaiting
	}
	return &Pool{config: c, metrics: newMetrics(c.Name), usage: newUsage()}
}

// Acquire waits until the request is served. It returns fault.Exhausted if too many requests of
// the client wait already. It returns fault.Unavailable if too many requests of all clients
// wait, or if the request is not served within Config.MaxWait or the deadline of ctx. It
// returns the error of ctx if ctx is cancelled. The caller must release the lease.
func (p *Pool) Acquire(ctx context.Context, r Request) (*Lease, error) {
	t, err := p.Enqueue(r)
	if err != nil {
		return nil, err
	}
	return t.Wait(ctx)
}

// A Ticket is a request that was served or is waiting.
type Ticket struct {
	waiter *waiter
	lease  Lease
	since  time.Time
}

// Enqueue enqueues a request without waiting for it. It returns an error if the request may not
// wait. The caller must call Wait once.
func (p *Pool) Enqueue(r Request) (*Ticket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.enqueue(r)
	if p.dispatch(); !w.served {
		if err := p.refuses(w); err != nil {
			p.remove(w)
			return nil, err
		}
	}
	return &Ticket{w, p.lease(w), time.Now()}, nil
}

// Wait returns the lease once the request is served, or Acquire's errors.
func (t *Ticket) Wait(ctx context.Context) (*Lease, error) {
	if err := t.lease.pool.await(ctx, t.waiter); err != nil {
		return nil, err
	}
	t.lease.pool.metrics.waited.Observe(time.Since(t.since).Seconds())
	return &t.lease, nil
}

// TryAcquire is Acquire for a request that never waits. It returns fault.Exhausted if the
// client holds its limit, and fault.Unavailable if the pool is used up.
func (p *Pool) TryAcquire(r Request) (*Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.enqueue(r)
	if p.dispatch(); !w.served {
		err := p.rejection(w)
		p.remove(w)
		return nil, err
	}
	l := p.lease(w)
	return &l, nil
}

func (p *Pool) lease(w *waiter) Lease {
	return Lease{pool: p, path: w.path, rank: w.rank, stranger: w.stranger, amount: w.amount}
}

// enqueue adds a request to those that wait. The caller holds mu.
func (p *Pool) enqueue(r Request) *waiter {
	p.sequence++
	w := &waiter{
		path: p.usage.path(r.Client, p.sequence), stranger: r.Client.IsAnonymous(), rank: rankOf(r), amount: max(r.Amount, 1),
		sequence: p.sequence, granted: make(chan struct{}),
	}
	p.add(w)
	return w
}

// add and remove change the list of waiting requests. The caller holds mu.
func (p *Pool) add(w *waiter) {
	p.waiting = append(p.waiting, w)
	for _, r := range w.path {
		r.waiting++
	}
}

func (p *Pool) remove(w *waiter) {
	for i := range p.waiting {
		if p.waiting[i] == w {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			break
		}
	}
	for _, r := range w.path {
		r.waiting--
	}
}

// refuses returns an error if an enqueued request may not wait. The caller holds mu.
func (p *Pool) refuses(w *waiter) error {
	if p.config.MaxWaiting == 0 || !p.fitsCapacity(w) {
		return p.rejection(w)
	}
	if p.isQueueFull(w) {
		p.metrics.refused(reasonQueue)
		return p.busy(nil)
	}
	if n := w.client().waiting; n > p.config.MaxWaitingPerClient {
		p.metrics.refused(reasonClient)
		return fault.Exhausted.Newf("Too many %s from one client: %d are waiting; try again later", p.config.Name, n-1).After(retryAfter)
	}
	return nil
}

// isQueueFull reports whether an enqueued request exceeds the number of requests of users or
// strangers that may wait, or the number for a network of strangers, which must leave a part of
// the queue to other networks.
func (p *Pool) isQueueFull(w *waiter) bool {
	left := p.config.MaxWaiting
	for _, o := range p.waiting {
		if o != w && o.stranger == w.stranger && !o.grows {
			left--
		}
	}
	full := left <= 0
	for _, r := range w.path {
		full = full || w.stranger && r.waiting-1 >= 2*left
	}
	return full
}

// fitsCapacity reports whether the request fits into an empty pool.
func (p *Pool) fitsCapacity(w *waiter) bool {
	most := p.config.Capacity
	if w.stranger {
		most -= p.config.Reserved
	}
	if p.config.PerClient > 0 {
		most = min(most, p.config.PerClient)
	}
	return w.amount <= most
}

// rejection returns the error for a request that is not served and does not wait. The caller
// holds mu.
func (p *Pool) rejection(w *waiter) error {
	own := w.client()
	if most := p.config.PerClient; most > 0 && own.held+w.amount > most {
		p.metrics.refused(reasonClient)
		return fault.Exhausted.Newf("Too many %s from one client: the limit is %d at a time; close one, or try again later", p.config.Name, most).After(retryAfter)
	}
	p.metrics.refused(reasonCapacity)
	return p.busy(nil)
}

func (p *Pool) busy(cause error) error {
	return fault.Unavailable.New("Too many "+p.config.Name+" at the moment; try again later", cause).After(retryAfter)
}

// await waits until an enqueued request is served. A request that is served while its
// context ends counts as served.
func (p *Pool) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.granted:
		return nil
	default:
	}
	var expired <-chan time.Time
	if p.config.MaxWait > 0 {
		t := time.NewTimer(p.config.MaxWait)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-w.granted:
		return nil
	case <-expired:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.served {
		return nil
	}
	p.remove(w)
	p.dispatch() // a large request may have been in front of smaller ones
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p.metrics.refused(reasonTimeout)
	return p.busy(ctx.Err())
}

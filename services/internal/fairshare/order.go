package fairshare

import (
	"cmp"
	"time"
)

// A rank is a binary number whose digits are four decisions: user or stranger, trusted or
// untrusted, short or not, background or not. Smaller ranks are served first. ranks is the
// number of ranks.
const (
	rankBits = 4
	ranks    = 1 << rankBits
)

// turn is how many leases the first side of a decision gets before the other side gets one.
const turn = 7

func rankOf(r Request) (rank int) {
	for _, second := range [rankBits]bool{r.Client.IsAnonymous(), r.Untrusted, r.Class != Short, r.Class == Background} {
		rank <<= 1
		if second {
			rank |= 1
		}
	}
	return rank
}

// dispatch serves waiting requests until the next one does not fit. Smaller requests wait
// behind that request, so that they cannot starve it. The caller holds mu.
func (p *Pool) dispatch() {
	onlyUsers := false
	for len(p.waiting) > 0 && p.held < p.config.Capacity {
		w, passed := p.pick(onlyUsers)
		switch {
		case w == nil:
			return
		case w.amount <= p.free(w.stranger):
			p.passed = passed
			p.serve(w)
		case w.stranger && !onlyUsers:
			onlyUsers = true // the reserved part may still fit a request of a user
		default:
			return
		}
	}
}

// free returns how much a request could get.
func (p *Pool) free(stranger bool) int64 {
	free := p.config.Capacity - p.held
	if stranger {
		free = min(free, p.config.Capacity-p.config.Reserved-p.heldByStrangers)
	}
	return free
}

// pick returns the next request, and the counters after it is served. The request is nil if
// none may be served. Each bit of the rank is one decision. The counters form a binary tree of
// decisions, in which the children of i are 2i and 2i+1.
func (p *Pool) pick(onlyUsers bool) (*waiter, [ranks]uint8) {
	passed, now := p.passed, time.Now()
	next := make([]*waiter, 0, len(p.waiting))
	for _, w := range p.waiting {
		if p.allows(w) && (!onlyUsers || !w.stranger) {
			next = append(next, w)
		}
	}
	if len(next) == 0 {
		return nil, passed
	}
	for i, bit := 1, rankBits-1; bit >= 0; bit-- {
		var sides [2][]*waiter
		for _, w := range next {
			side := w.rank >> bit & 1
			sides[side] = append(sides[side], w)
		}
		side := 0
		switch {
		case len(sides[0]) == 0:
			side = 1
		case len(sides[1]) > 0 && passed[i] >= turn:
			side, passed[i] = 1, 0
		case len(sides[1]) > 0:
			passed[i]++
		}
		next, i = sides[side], 2*i+side
	}
	first := next[0]
	for _, w := range next[1:] {
		if w.before(first, now) {
			first = w
		}
	}
	return first, passed
}

// allows reports whether the limits of the client and its networks allow a request to be
// served, given the free part of the pool.
func (p *Pool) allows(w *waiter) bool {
	free := p.free(w.stranger)
	if free <= 0 || !p.withinClient(w) {
		return false
	}
	for _, r := range w.path {
		if w.stranger && r.held/2 >= free {
			return false
		}
	}
	return true
}

// withinClient reports whether the client, and the networks that have a multiple of its limit,
// may hold the requested amount.
func (p *Pool) withinClient(w *waiter) bool {
	for _, r := range w.path {
		if most := p.config.PerClient * r.clients; most > 0 && r.held+w.amount > most {
			return false
		}
	}
	return true
}

// before reports whether a request is served before another one of the same rank. The client
// with the smaller share is first; shares are compared in the first group in which the paths of
// both clients differ.
func (w *waiter) before(o *waiter, now time.Time) bool {
	for i := range min(len(w.path), len(o.path)) {
		a, b := w.path[i], o.path[i]
		if a == b {
			continue
		}
		return cmp.Or(cmp.Compare(a.share(now), b.share(now)), cmp.Compare(a.served, b.served), cmp.Compare(a.created, b.created)) < 0
	}
	if w.grows != o.grows {
		return w.grows
	}
	return w.sequence < o.sequence
}

// serve grants a request. The caller holds mu.
func (p *Pool) serve(w *waiter) {
	p.remove(w)
	p.sequence++
	p.hold(w.path, w.stranger, w.amount)
	for _, r := range w.path {
		r.served = p.sequence
	}
	w.served = true
	close(w.granted)
}

// hold adds amount, which may be negative, to what a client holds. The caller holds mu.
func (p *Pool) hold(path []*record, stranger bool, amount int64) {
	now := time.Now()
	for _, r := range path {
		r.update(now)
		r.held += amount
	}
	p.held += amount
	if stranger {
		p.heldByStrangers += amount
	}
}

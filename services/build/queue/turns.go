package queue

import (
	"cmp"
	"slices"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/build/workers"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/ratelimit"
)

// ahead is how many jobs are on the bus per slot of the live workers: one that runs and one
// that comes next. The others wait in SQL, where a later user's build can still be served
// first.
const ahead = 2

// share returns how many builds of one kind an owner may have with the workers at a time. A limit
// of the user's own replaces RunningUser; isFull checks it. If there are several slots, an anonymous
// client never gets all of them, since builds that only sleep would block all others until their
// time limit.
func (q *Queue) share(c fairshare.Client, hasOwn bool, slots int) int {
	if !c.IsAnonymous() {
		if n := q.RunningUser; n > 0 && !hasOwn {
			return n
		}
		return ahead * slots
	}
	n := max(1, slots-1)
	if q.RunningAnonymous > 0 {
		n = min(n, q.RunningAnonymous)
	}
	return n
}

// strangersShare returns how many builds all anonymous clients together may have with
// workers that have the given number of slots. With ReserveForUsers, a quarter of the slots,
// and at least one if there are several, is reserved for users. Then no anonymous job waits
// on the bus ahead of a user's.
func (q *Queue) strangersShare(slots int) int {
	switch {
	case !q.ReserveForUsers:
		return ahead * slots
	case slots <= 1:
		return slots
	}
	return slots - max(1, slots/4)
}

// turns returns the next builds in order: users before anonymous clients, then the client
// with the fewest dispatched builds (see fairshare.Tally), then the oldest.
func (q *Queue) turns(waiting, out []store.Record) []store.Record {
	r := q.newRound(waiting, out)
	waiting = slices.Clone(waiting)
	var picked []store.Record
	for {
		open := slices.DeleteFunc(slices.Clone(waiting), r.mustWait)
		if len(open) == 0 {
			return picked
		}
		next := slices.MinFunc(open, r.compare)
		picked = append(picked, next)
		r.give(next)
		waiting = slices.DeleteFunc(waiting, func(b store.Record) bool { return b.ID == next.ID })
	}
}

// round is the state of the queue while builds are chosen.
type round struct {
	*Queue
	// fits holds the suitable workers for each kind of waiting build.
	fits map[engine.Kind]workers.Candidates
	// free is how many more builds of a kind may be dispatched.
	free map[engine.Kind]int
	// strangers is how many slots for a kind anonymous builds occupy or may occupy.
	strangers map[engine.Kind]int
	held      map[holding]int
	busy      fairshare.Tally
	// own holds the limits of the subjects of each build, and running how many dispatched builds
	// of all kinds a subject with a limit has.
	own     map[string][]ratelimit.RunningLimit
	running map[ratelimit.Subject]int
}

// A holding identifies the dispatched builds of one kind and owner.
type holding struct {
	owner string
	kind  engine.Kind
}

func (q *Queue) newRound(waiting, out []store.Record) *round {
	r := &round{
		Queue: q, fits: map[engine.Kind]workers.Candidates{}, free: map[engine.Kind]int{}, strangers: map[engine.Kind]int{}, held: map[holding]int{},
		own: map[string][]ratelimit.RunningLimit{}, running: map[ratelimit.Subject]int{},
	}
	if q.RunningOf != nil {
		for _, b := range slices.Concat(waiting, out) {
			if limits := q.RunningOf(b); limits != nil {
				r.own[b.ID] = limits
			}
		}
	}
	for _, b := range waiting {
		c := b.Kind()
		if _, known := r.fits[c]; !known {
			r.fits[c] = q.Workers.Candidates(c)
			r.free[c] = ahead * r.fits[c].Slots
		}
	}
	for _, b := range out {
		r.give(b)
	}
	return r
}

// give counts a dispatched build.
func (r *round) give(b store.Record) {
	c, client := b.Kind(), fairshare.ParseClient(b.Owner)
	r.free[c]--
	r.held[holding{b.Owner, c}]++
	r.busy.Add(client, 1)
	for _, l := range r.own[b.ID] {
		r.running[l.Subject]++
	}
	if !client.IsAnonymous() {
		return
	}
	worker := b.Worker
	if b.Delivery == 0 { // no worker has it now
		worker = ""
	}
	for kind, f := range r.fits { // a worker's slots are shared by all architectures of an engine
		if kind.Engine == c.Engine && f.MayRun(worker, c) {
			r.strangers[kind]++
		}
	}
}

func (r *round) mustWait(b store.Record) bool {
	c, client := b.Kind(), fairshare.ParseClient(b.Owner)
	slots := r.fits[c].Slots
	return r.free[c] <= 0 || r.isFull(b) || r.held[holding{b.Owner, c}] >= r.share(client, r.hasOwn(b), slots) ||
		client.IsAnonymous() && r.strangers[c] >= r.strangersShare(slots)
}

// isFull reports whether the user, the workspace or the organisation of a build has as many
// dispatched builds as its own limit allows.
func (r *round) isFull(b store.Record) bool {
	return slices.ContainsFunc(r.own[b.ID], func(l ratelimit.RunningLimit) bool { return l.Most > 0 && r.running[l.Subject] >= l.Most })
}

// hasOwn reports whether the user of a build has a limit of its own.
func (r *round) hasOwn(b store.Record) bool {
	return slices.ContainsFunc(r.own[b.ID], func(l ratelimit.RunningLimit) bool { return l.Of == ratelimit.User })
}

func (r *round) compare(a, b store.Record) int {
	return cmp.Or(r.busy.Compare(fairshare.ParseClient(a.Owner), fairshare.ParseClient(b.Owner)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

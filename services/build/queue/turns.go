package queue

import (
	"cmp"
	"slices"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
)

// ahead is how many jobs wait on the bus for each slot of the live workers: one
// that is done and one that comes next. The rest waits in SQL, where a user who
// comes later can still be served before.
const ahead = 2

// share is how many builds of one kind an owner may have with the workers at a
// time. One address without a user never has every slot where there are several:
// a build that only sleeps would keep everybody else waiting for its whole time.
func (q *Queue) share(r store.Record, slots int) int {
	if r.Request.GetIdentity() != nil {
		if n := q.RunningUser; n > 0 {
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

// turns picks who goes next: always the owner with the fewest builds out, and of
// those with equally many the one who has waited longest. Nobody gets more than
// their share.
func turns(waiting, out []store.Record, slots func(engine.Kind) int, share func(store.Record, int) int) []store.Record {
	type holding struct {
		owner string
		kind  engine.Kind
	}
	room, most := map[engine.Kind]int{}, map[engine.Kind]int{}
	busy, held := map[string]int{}, map[holding]int{}
	for _, r := range waiting {
		c := r.Kind()
		most[c] = slots(c)
		room[c] = ahead * most[c]
	}
	give := func(r store.Record) {
		c := r.Kind()
		room[c]--
		busy[r.Owner]++
		held[holding{r.Owner, c}]++
	}
	for _, r := range out {
		give(r)
	}
	waits := func(r store.Record) bool {
		c := r.Kind()
		return room[c] <= 0 || held[holding{r.Owner, c}] >= share(r, most[c])
	}
	var picked []store.Record
	for {
		open := slices.DeleteFunc(slices.Clone(waiting), waits)
		if len(open) == 0 {
			return picked
		}
		next := slices.MinFunc(open, func(a, b store.Record) int {
			return cmp.Or(cmp.Compare(busy[a.Owner], busy[b.Owner]), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
		})
		picked = append(picked, next)
		give(next)
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(r store.Record) bool { return r.ID == next.ID })
	}
}

package fairshare

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// halfLife is the time after which half of what a client has used is forgotten.
const halfLife = time.Minute

// maxRecords is the number of groups whose usage is stored while they hold nothing.
const maxRecords = 10_000

// usage has a record for each group that holds a part of the pool or waits for one, or did so
// recently.
type usage struct {
	records map[group]*record
	// sweepAt is the number of records at which idle ones are removed.
	sweepAt int
}

// record is the usage of one group. The pool's lock guards it.
type record struct {
	group
	clients int64
	held    int64
	waiting int
	// average is the decayed average of held until the time at.
	average float64
	at      time.Time
	// created and served are the sequence numbers of the first request and the last lease.
	created, served uint64
}

func newUsage() *usage { return &usage{records: map[group]*record{}, sweepAt: maxRecords} }

// path returns the records of a client's groups, the widest first.
func (u *usage) path(c Client, sequence uint64) []*record {
	if len(u.records) >= u.sweepAt {
		u.sweep(time.Now())
	}
	levels := c.levels()
	path := make([]*record, len(levels))
	for i, l := range levels {
		r := u.records[l.group]
		if r == nil {
			r = &record{group: l.group, clients: l.clients, at: time.Now(), created: sequence}
			u.records[l.group] = r
		}
		path[i] = r
	}
	return path
}

// sweep deletes the records of the idle groups that have used the least, until maxRecords/2
// records are left.
func (u *usage) sweep(now time.Time) {
	var idle []*record
	for _, r := range u.records {
		if r.held == 0 && r.waiting == 0 {
			r.update(now)
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *record) int { return cmp.Compare(a.average, b.average) })
	for _, r := range idle {
		if len(u.records) <= maxRecords/2 {
			break
		}
		delete(u.records, r.group)
	}
	u.sweepAt = max(maxRecords, 2*len(u.records))
}

// update brings the average up to date. It is called before held changes.
func (r *record) update(now time.Time) {
	if age := now.Sub(r.at); age > 0 {
		kept := math.Exp2(-float64(age) / float64(halfLife))
		r.average = r.average*kept + float64(r.held)*(1-kept)
		r.at = now
	}
}

// share returns what the group holds plus the decayed average of what it held.
func (r *record) share(now time.Time) float64 {
	r.update(now)
	return float64(r.held) + r.average
}

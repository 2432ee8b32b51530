package fairshare

import "cmp"

// A Tally counts what clients hold of a resource whose state is elsewhere, such as jobs in a
// database that several processes dispatch. It orders clients as a Pool does, but only by what
// they hold now. Since it has no history, users always come before strangers. The zero value is
// ready; not safe for concurrent use.
type Tally struct{ held map[group]int64 }

// Add counts that a client holds n more.
func (t *Tally) Add(c Client, n int64) {
	if t.held == nil {
		t.held = map[group]int64{}
	}
	for _, l := range c.levels() {
		t.held[l.group] += n
	}
}

// Compare returns a negative number if a is served before b, and 0 if neither is: users
// before strangers, then the client that holds less, compared network by network.
func (t *Tally) Compare(a, b Client) int {
	if a.IsAnonymous() != b.IsAnonymous() {
		if b.IsAnonymous() {
			return -1
		}
		return 1
	}
	x, y := a.levels(), b.levels()
	for i := range min(len(x), len(y)) {
		if x[i].group != y[i].group {
			return cmp.Compare(t.held[x[i].group], t.held[y[i].group])
		}
	}
	return 0
}
